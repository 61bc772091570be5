"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const number = (value) => (value === "inf" ? Infinity : value === null ? NaN : value);
  for (const group of data.groups) {
    group.norms = group.norms.map(number);
    for (const name of Object.keys(group.columns))
      group.columns[name] = group.columns[name].map((values) => values.map(number));
  }

  // The same as bounding/cosine.py: 180 where the deviation reaches the norm.
  const degrees = (deviation, norm) => {
    if (Number.isNaN(deviation) || Number.isNaN(norm)) return NaN;
    const sine = norm > 0 ? deviation / norm : deviation > 0 ? Infinity : 0;
    return deviation < norm && sine < 1 ? (Math.asin(sine) * 180) / Math.PI : 180;
  };

  // The same as report/radius.py. Gives {values, from} or null where nothing is known.
  const boundAt = (group, claim, epsilon) => {
    const columns = group.columns[claim];
    const exact = group.epsilons.indexOf(epsilon);
    if (exact >= 0) return { values: columns[exact], from: "measured" };
    const moves = group.moves[claim];
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
  const attackAt = (group, name, epsilon) => {
    const known = group.epsilons.filter((radius) => radius <= epsilon).length;
    if (!known) return null;
    const values = group.samples.map((_, i) => {
      const found = group.columns[name].slice(0, known).map((v) => v[i]).filter((v) => !Number.isNaN(v));
      return found.length ? Math.max(...found) : NaN;
    });
    const last = group.epsilons[known - 1];
    return { values, from: last === epsilon ? "measured" : `ε ≤ ${show(last)}` };
  };

  const known = (values) => values.filter((v) => !Number.isNaN(v));
  const mean = (values) => {
    const have = known(values);
    return have.length ? have.reduce((a, b) => a + b, 0) / have.length : NaN;
  };
  const median = (values) => {
    const have = known(values).sort((a, b) => a - b);
    const half = have.length / 2;
    if (!have.length) return NaN;
    return have.length % 2 ? have[Math.floor(half)] : (have[half - 1] + have[half]) / 2;
  };
  const largest = (values) => {
    const have = known(values);
    return have.length ? have.reduce((a, b) => Math.max(a, b)) : NaN;
  };
  const show = (value) => {
    if (Number.isNaN(value)) return "-";
    if (!Number.isFinite(value)) return "∞";
    return String(Number(value.toPrecision(4)));
  };
  // Plotly reads a little markup in texts; names from data must stay names.
  const plain = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const className = (label) =>
    label === null ? "unknown" : data.classes[label];

  const state = { group: data.groups[0], epsilon: 0 };

  const rows = () => {
    const { group, epsilon } = state;
    const attack = attackAt(group, "attack", epsilon);
    const found = Object.keys(group.moves).map((claim) => {
      const bound = boundAt(group, claim, epsilon);
      if (!bound) return { claim, title: data.claims[claim] };
      const angles = bound.values.map((v, i) => degrees(v, group.norms[i]));
      const exact = group.epsilons.indexOf(epsilon);
      const broken =
        exact >= 0 ? group.broken[claim][exact].length
          : attack ? attack.values.filter((v, i) => v > bound.values[i]).length : NaN;
      return { claim, title: data.claims[claim], ...bound, angles, broken };
    });
    if (attack) {
      const angles = attackAt(group, "attack_degrees", epsilon).values;
      found.push({ claim: "attack", title: "strongest attack", ...attack, angles, broken: NaN });
    } else found.push({ claim: "attack", title: "strongest attack" });
    return found;
  };

  const fillTable = (found) => {
    const body = byId("live").tBodies[0];
    body.replaceChildren();
    const total = known(state.group.norms).length;
    const exact = state.group.epsilons.includes(state.epsilon);
    for (const row of found) {
      const line = body.insertRow();
      line.dataset.claim = row.claim;
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = row.title;
      line.append(head);
      const have = row.values !== undefined;
      const cells = have
        ? [
            show(mean(row.values)),
            show(largest(row.values)),
            show(mean(row.angles.filter((v) => v < 180))),
            `${row.angles.filter((v) => v === 180).length} of ${total}`,
            Number.isNaN(row.broken) ? "-" : `${exact ? "" : "at least "}${row.broken} of ${total}`,
            row.from,
          ]
        : ["-", "-", "-", "-", "-", "not known at this radius"];
      cells.forEach((text, i) => {
        const cell = line.insertCell();
        cell.textContent = text;
        if (i === 4 && row.broken > 0) cell.className = "bad";
      });
    }
    const { group } = state;
    const some = group.samples.length < group.total
      ? ` (${group.samples.length} of its ${group.total} samples, evenly spread: the table above has all)`
      : "";
    byId("live-caption").textContent = `${group.title}, ε = ${show(state.epsilon)}${some}`;
  };

  // Distinguishable in both colour schemes and for colour-blind readers; symbols differ, too.
  const looks = {
    first_order: ["#d55e00", "circle"],
    adjusted: ["#cc79a7", "diamond"],
    calibrated: ["#e69f00", "square"],
    mean_value: ["#0072b2", "triangle-up"],
    certified: ["#009e73", "star"],
    attack: ["#888888", "x"],
  };
  let printing = false;
  const layout = (extra) => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true };
    const { xaxis, yaxis, ...rest } = extra;
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: printing ? "#000" : colour("--text"), family: "system-ui, sans-serif", size: 12 },
      hoverlabel: { bgcolor: colour("--panel"), font: { color: colour("--text") } },
      margin: { l: 55, r: 12, t: 12, b: 45 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } },
      xaxis: { ...axis, ...xaxis },
      yaxis: { ...axis, ...yaxis },
      ...rest,
    };
  };
  const config = { responsive: true, displaylogo: false, displayModeBar: false };
  const title = (text) => ({ title: { text } });

  const drawScatter = (found, attack) => {
    const { group } = state;
    const kind = byId("log").checked ? "log" : "linear";
    const bounds = found.filter((row) => row.values && row.claim !== "attack");
    const traces = bounds.map((row) => ({
      type: "scatter",
      mode: "markers",
      name: row.title,
      x: row.values,
      y: attack,
      marker: { color: looks[row.claim][0], symbol: looks[row.claim][1], size: 7, opacity: 0.75 },
      text: group.samples.map((sample, i) =>
        `sample ${sample}, class ${plain(className(group.labels[i]))}` +
        (group.predictions[i] === group.labels[i] ? "" : ` (predicted ${plain(className(group.predictions[i]))})`) +
        `<br>${plain(row.title)} bound ${show(row.values[i])}, angle ${show(row.angles[i])}°` +
        `<br>attack ${show(attack[i])}<br>norm of the attribution ${show(group.norms[i])}`),
      hovertemplate: "%{text}<extra></extra>",
    }));
    const all = known([...attack, ...bounds.flatMap((row) => row.values)]).filter(
      (v) => Number.isFinite(v) && (kind === "linear" || v > 0));
    const ends = all.length ? [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))] : [0.1, 1];
    traces.push({
      type: "scatter", mode: "lines", name: "attack = bound", x: ends, y: ends, hoverinfo: "skip",
      line: { color: "#888888", dash: "dash", width: 1.5 },
    });
    const ticks = kind === "log" ? { dtick: "D2" } : {};
    Plotly.react("scatter", traces, layout({
      xaxis: { ...title("bound"), type: kind, ...ticks },
      yaxis: { ...title("attack"), type: kind, ...ticks },
    }), config);
  };

  const drawGaps = (found, attack) => {
    const bounds = found.filter((row) => row.values && row.claim !== "attack");
    const gaps = bounds.map((row) =>
      row.values.map((v, i) => (Number.isFinite(v) ? 1 - attack[i] / v : NaN)).filter(Number.isFinite));
    const all = gaps.flat();
    const least = all.reduce((a, b) => Math.min(a, b), 0);
    const size = (all.reduce((a, b) => Math.max(a, b), 0) - least) / 40 || 1;
    // The same bins for every claim, one of them beginning at zero.
    const start = Math.floor(least / size) * size;
    const traces = bounds.map((row, i) => ({
      type: "histogram",
      name: row.title,
      x: gaps[i],
      opacity: 0.6,
      marker: { color: looks[row.claim][0] },
      xbins: { start, end: start + 42 * size, size },
    }));
    Plotly.react("gaps", traces, layout({
      barmode: "overlay",
      xaxis: title("1 − attack / bound"),
      yaxis: title("samples"),
      shapes: [{ type: "line", x0: 0, x1: 0, yref: "paper", y0: 0, y1: 1, line: { color: "#888888", dash: "dash" } }],
    }), config);
  };

  // Lines against the radius; they change with the group only, the marker with the slider.
  const curves = (of) => {
    const { group } = state;
    const last = Number(byId("epsilon").max);
    const traces = [];
    for (const claim of Object.keys(group.moves)) {
      const [color, symbol] = looks[claim];
      const at = (epsilon) => of(boundAt(group, claim, epsilon).values.map((v, i) => [v, group.norms[i]]), false);
      const dots = group.epsilons.map(at);
      const line = { type: "scatter", mode: "lines", legendgroup: claim, showlegend: false, hoverinfo: "skip" };
      if (group.moves[claim] === "scaled") {
        const radii = [...Array(61).keys()].map((i) => (last * i) / 60);
        traces.push({ ...line, x: radii, y: radii.map(at), line: { color } });
      } else if (group.moves[claim] === "nested")
        traces.push({ ...line, x: [0, ...group.epsilons], y: [dots[0], ...dots], line: { color, shape: "vh" } });
      traces.push({
        type: "scatter", mode: "markers", name: data.claims[claim], legendgroup: claim,
        x: group.epsilons, y: dots, marker: { color, symbol, size: 9 },
      });
    }
    const attack = group.epsilons.map((_, k) =>
      of(group.columns[of.angle ? "attack_degrees" : "attack"][k].map((v) => [v, NaN]), true));
    const [color, symbol] = looks.attack;
    traces.push({
      type: "scatter", mode: "lines", legendgroup: "attack", showlegend: false, hoverinfo: "skip",
      x: [...group.epsilons, last], y: [...attack, attack[attack.length - 1]], line: { color, shape: "hv" },
    });
    traces.push({
      type: "scatter", mode: "markers", name: "strongest attack", legendgroup: "attack",
      x: group.epsilons, y: attack, marker: { color, symbol, size: 9 },
    });
    return traces;
  };
  const meanOf = Object.assign((pairs) => mean(pairs.map(([v]) => v)), { angle: false });
  const angleOf = Object.assign(
    (pairs, attained) => median(pairs.map(([v, norm]) => (attained ? v : degrees(v, norm)))), { angle: true });
  const drawCurves = () => {
    const marker = { type: "line", x0: state.epsilon, x1: state.epsilon, yref: "paper", y0: 0, y1: 1, line: { color: "#888888", dash: "dash" } };
    const range = [0, Number(byId("epsilon").max)];
    const both = { xaxis: { ...title("radius ε"), range }, shapes: [marker] };
    Plotly.react("curve", state.lines[0], layout({ ...both, yaxis: { ...title("mean deviation"), rangemode: "tozero" } }), config);
    Plotly.react("angles", state.lines[1], layout({ ...both, yaxis: { ...title("median angle, °"), rangemode: "tozero" } }), config);
  };

  const draw = () => {
    const found = rows();
    fillTable(found);
    const attack = found[found.length - 1].values ?? state.group.samples.map(() => NaN);
    drawScatter(found, attack);
    drawGaps(found, attack);
    drawCurves();
  };

  const setEpsilon = (value) => {
    const slider = byId("epsilon");
    const near = Number(slider.max) / 200;
    const stop = state.group.epsilons.find((radius) => Math.abs(radius - value) < near);
    state.epsilon = stop ?? value;
    slider.value = String(state.epsilon);
    slider.setAttribute("aria-valuetext", `ε = ${show(state.epsilon)}`);
    byId("epsilon-shown").textContent = show(state.epsilon);
    draw();
  };

  const setGroup = (number) => {
    const group = (state.group = data.groups[number]);
    byId("epsilon").max = String(1.5 * group.epsilons[group.epsilons.length - 1]);
    byId("stops").replaceChildren(...group.epsilons.map((radius) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = show(radius);
      button.addEventListener("click", () => setEpsilon(radius));
      return button;
    }));
    for (const block of document.querySelectorAll(".block"))
      block.hidden = !printing && Number(block.dataset.group) !== number;
    state.lines = [curves(meanOf), curves(angleOf)];
    setEpsilon(group.epsilons[group.epsilons.length - 1]);
  };

  const positive = data.groups.every((group) => group.columns.attack.flat().every((v) => !(v <= 0)));
  byId("log").checked = positive;
  byId("log").addEventListener("change", draw);
  byId("group").addEventListener("change", (event) => setGroup(Number(event.target.value)));
  byId("epsilon").addEventListener("input", (event) => setEpsilon(Number(event.target.value)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const forPrint = (on) => {
    printing = on;
    const number = data.groups.indexOf(state.group);
    for (const block of document.querySelectorAll(".block"))
      block.hidden = !on && Number(block.dataset.group) !== number;
    draw();
  };
  addEventListener("beforeprint", () => forPrint(true));
  addEventListener("afterprint", () => forPrint(false));
  setGroup(0);
  globalThis.attribound = { degrees, boundAt, attackAt, data, state };
})();
