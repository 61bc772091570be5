"use strict";
// Numbers of the page at any radius: the same as report/radius.py, which a test holds against it.
const atRadius = (data) => {
  const number = (value) => (value === "inf" ? Infinity : value === null ? NaN : value);
  for (const group of data.groups) {
    group.norms = group.norms.map(number);
    for (const kind of [group.bounds, group.angles, ...Object.values(group.attacks)])
      for (const name of Object.keys(kind))
        kind[name] = kind[name].map((values) => values.map(number));
  }

  const show = (value) => {
    if (Number.isNaN(value)) return "-";
    if (!Number.isFinite(value)) return "∞";
    return String(Number(value.toPrecision(4)));
  };

  // The same as bounding/cosine.py: 180 where the deviation reaches the norm.
  const degrees = (deviation, norm) => {
    if (Number.isNaN(deviation) || Number.isNaN(norm)) return NaN;
    const sine = norm > 0 ? deviation / norm : deviation > 0 ? Infinity : 0;
    return deviation < norm && sine < 1 ? (Math.asin(sine) * 180) / Math.PI : 180;
  };

  // Gives {values, from} or null where nothing is known.
  const boundAt = (group, claim, epsilon) => {
    const columns = group.bounds[claim];
    const exact = group.epsilons.indexOf(epsilon);
    if (exact >= 0) return { values: columns[exact], from: "measured" };
    const { moves } = data.claims[claim];
    if (moves === "scaled") {
      const least = group.linear ? 0 : 1;
      const factors = group.epsilons.map((radius) => Math.max(least, epsilon / radius));
      const values = group.samples.map((_, i) => {
        const known = columns.map((v, k) => v[i] * factors[k]).filter((v) => !Number.isNaN(v));
        return known.length ? Math.min(...known) : NaN;
      });
      return { values, from: group.linear ? "linear in ε" : "limits of the measured" };
    }
    const larger = group.epsilons.findIndex((radius) => radius > epsilon);
    if (moves === "nested" && larger >= 0)
      return { values: columns[larger], from: `ε = ${show(group.epsilons[larger])}` };
    return null;
  };
  // Angles of a bound: in closed form from the norms, which are of what was bounded; a claim about
  // another network has them where they were measured.
  const anglesAt = (group, claim, epsilon, values) => {
    const measured = group.angles[claim];
    if (!measured) return values.map((v, i) => degrees(v, group.norms[i]));
    const exact = group.epsilons.indexOf(epsilon);
    return exact >= 0 ? measured[exact] : values.map(() => NaN);
  };
  // ``subject`` is the network that was attacked.
  const attackAt = (group, subject, name, epsilon) => {
    const known = group.epsilons.filter((radius) => radius <= epsilon).length;
    if (!known) return null;
    const values = group.samples.map((_, i) => {
      const found = group.attacks[subject][name].slice(0, known).map((v) => v[i]).filter((v) => !Number.isNaN(v));
      return found.length ? Math.max(...found) : NaN;
    });
    const last = group.epsilons[known - 1];
    return { values, from: last === epsilon ? "measured" : `ε ≤ ${show(last)}` };
  };

  return { degrees, boundAt, anglesAt, attackAt, show };
};
