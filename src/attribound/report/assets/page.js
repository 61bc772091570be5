(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const { degrees, boundAt, anglesAt, attackAt, show } = atRadius(data);

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
  // Plotly reads a little markup in texts; names from data must stay names.
  const plain = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const className = (label) =>
    label === null ? "unknown" : data.classes[label];

  // With a smooth copy there are two networks, and everything names the one it is about.
  const both = data.networks.copy !== undefined;
  const subjectsOf = (group) => Object.keys(group.attacks);
  const state = { group: data.groups[0], epsilon: 0, network: "yours" };

  const ATTACKS = {
    yours: { title: "strongest attack", colour: both ? "#777777" : "#888888", symbol: both ? "star" : "x" },
    copy: { title: "strongest attack", colour: "#888888", symbol: "x" },
  };
  if (both)
    for (const subject of Object.keys(data.networks))
      ATTACKS[subject].title += ` on ${data.networks[subject]}`;
  const claimTitle = (group, claim) =>
    data.claims[claim].title + (both ? `, of ${data.networks[group.subjects[claim]]}` : "");

  const rows = () => {
    const { group, epsilon } = state;
    const exact = group.epsilons.indexOf(epsilon);
    const attacks = subjectsOf(group).map((subject) => ({
      subject,
      ...ATTACKS[subject],
      ...attackAt(group, subject, "deviation", epsilon),
      angles: attackAt(group, subject, "degrees", epsilon)?.values,
      exceeded: {},
    }));
    const count = (claim, values, attack) => {
      if (!attack?.values || attack.values.every(Number.isNaN)) return NaN;
      const flagged = group.exceeded[attack.subject][claim];
      if (exact >= 0) return flagged ? flagged[exact].length : NaN;
      return attack.values.filter((v, i) => v > values[i]).length;
    };
    const found = Object.keys(group.bounds).map((claim) => {
      const bound = boundAt(group, claim, epsilon);
      const subject = group.subjects[claim];
      const named = { claim, subject, ...data.claims[claim], title: claimTitle(group, claim) };
      if (!bound) return named;
      const angles = anglesAt(group, claim, epsilon, bound.values);
      const exceeded = {};
      for (const attack of attacks) exceeded[attack.subject] = count(claim, bound.values, attack);
      return { ...named, ...bound, angles, exceeded };
    });
    return { bounds: found, attacks };
  };

  const shownAngle = (value) => (value >= 180 ? "open" : show(value));

  const fillTable = (found) => {
    const body = byId("live").tBodies[0];
    body.replaceChildren();
    const total = known(state.group.norms).length;
    const exact = state.group.epsilons.includes(state.epsilon);
    for (const row of [...found.bounds, ...found.attacks]) {
      const line = body.insertRow();
      line.dataset.claim = row.claim ?? (row.subject === "copy" ? "attack on the copy" : "attack");
      line.dataset.subject = row.subject;
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = row.title;
      line.append(head);
      const have = row.values !== undefined;
      const counts = both ? [row.exceeded?.[row.subject], row.exceeded?.yours] : [row.exceeded?.yours];
      const cells = have
        ? [
            show(mean(row.values)),
            show(largest(row.values)),
            shownAngle(median(row.angles)),
            `${row.angles.filter((v) => v === 180).length} of ${total}`,
            ...counts.map((n) => (n >= 0 ? `${exact ? "" : "at least "}${n} of ${total}` : "-")),
            row.from,
          ]
        : ["-", "-", "-", "-", ...counts.map(() => "-"), "not known at this radius"];
      cells.forEach((text, i) => {
        const cell = line.insertCell();
        cell.textContent = text;
        if (counts[i - 4] > 0) cell.className = "exceeded";
      });
    }
    const { group } = state;
    const some = group.samples.length < group.total
      ? ` (${group.samples.length} of its ${group.total} samples, evenly spread: the table above has all)`
      : "";
    byId("live-caption").textContent = `${group.title}, ε = ${show(state.epsilon)}${some}`;
  };

  let printing = false;
  // A page takes the width of the paper after it was drawn, and says so to nobody: plots that are
  // printed have a size of their own, which page.css knows.
  const layout = (extra, wide = false) => {
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
      ...(printing ? { width: wide ? 680 : 335, height: 300 } : {}),
      ...rest,
    };
  };
  const config = { responsive: true, displaylogo: false, displayModeBar: false };
  const title = (text) => ({ title: { text } });

  // What is said of the network itself is not held against attacks on its copy.
  const held = (found) =>
    found.bounds.filter((row) => row.values && (state.network === "yours" || row.subject === state.network));
  const attackName = () => (both ? `attack on ${data.networks[state.network]}` : "attack");

  // Whole numbers on logarithmic axes: 0.2 and 0.5, where plotly would write 2 and 5.
  const logTicks = ([low, high]) => {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const leads = last - first > 4 ? [1] : last - first > 2 ? [1, 3] : [1, 2, 5];
    const tickvals = [];
    for (let power = first; power <= last; power += 1)
      for (const lead of leads) tickvals.push(Number(`${lead}e${power}`));
    return { tickvals, ticktext: tickvals.map(show) };
  };

  const drawScatter = (found, attack) => {
    const { group } = state;
    const kind = byId("log").checked ? "log" : "linear";
    const bounds = held(found);
    const traces = bounds.map((row) => ({
      type: "scatter",
      mode: "markers",
      name: plain(row.title),
      x: row.values,
      y: attack,
      marker: { color: row.colour, symbol: row.symbol, size: 7, opacity: 0.75 },
      text: group.samples.map((sample, i) =>
        `sample ${sample}, class ${plain(className(group.labels[i]))}` +
        (group.predictions[i] === group.labels[i] ? "" : ` (predicted ${plain(className(group.predictions[i]))})`) +
        `<br>${plain(row.title)} bound ${show(row.values[i])}, angle ${show(row.angles[i])}°` +
        `<br>${plain(attackName())} ${show(attack[i])}<br>norm of the attribution ${show(group.norms[i])}`),
      hovertemplate: "%{text}<extra></extra>",
    }));
    const all = known([...attack, ...bounds.flatMap((row) => row.values)]).filter(
      (v) => Number.isFinite(v) && (kind === "linear" || v > 0));
    const ends = all.length ? [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))] : [0.1, 1];
    traces.push({
      type: "scatter", mode: "lines", name: "attack = bound", x: ends, y: ends, hoverinfo: "skip",
      line: { color: "#888888", dash: "dash", width: 1.5 },
    });
    const ticks = kind === "log" ? logTicks(ends) : {};
    Plotly.react("scatter", traces, layout({
      xaxis: { ...title("bound"), type: kind, ...ticks },
      yaxis: { ...title(attackName()), type: kind, ...ticks },
    }), config);
  };

  const drawGaps = (found, attack) => {
    const bounds = held(found);
    const gaps = bounds.map((row) =>
      row.values.map((v, i) => (Number.isFinite(v) ? 1 - attack[i] / v : NaN)).filter(Number.isFinite));
    const all = gaps.flat();
    const least = all.reduce((a, b) => Math.min(a, b), 0);
    const size = (all.reduce((a, b) => Math.max(a, b), 0) - least) / 40 || 1;
    // The same bins for every claim, one of them beginning at zero.
    const start = Math.floor(least / size) * size;
    const traces = bounds.map((row, i) => ({
      type: "histogram",
      name: plain(row.title),
      x: gaps[i],
      opacity: 0.6,
      marker: { color: row.colour },
      xbins: { start, end: start + 42 * size, size },
    }));
    Plotly.react("gaps", traces, layout({
      barmode: "overlay",
      xaxis: title(`1 − ${attackName()} / bound`),
      yaxis: title("samples"),
      shapes: [{ type: "line", x0: 0, x1: 0, yref: "paper", y0: 0, y1: 1, line: { color: "#888888", dash: "dash" } }],
    }), config);
  };

  // Lines against the radius; they change with the group only, the marker with the slider.
  const curves = (of) => {
    const { group } = state;
    const last = Number(byId("epsilon").max);
    const traces = [];
    for (const claim of Object.keys(group.bounds)) {
      const { moves, colour: color, symbol } = data.claims[claim];
      const name = claimTitle(group, claim);
      const at = (epsilon) => {
        const { values } = boundAt(group, claim, epsilon);
        return of(of.angle ? anglesAt(group, claim, epsilon, values) : values);
      };
      const dots = group.epsilons.map(at);
      const line = { type: "scatter", mode: "lines", legendgroup: claim, showlegend: false, hoverinfo: "skip" };
      if (moves === "scaled") {
        const radii = [...Array(61).keys()].map((i) => (last * i) / 60);
        traces.push({ ...line, x: radii, y: radii.map(at), line: { color } });
      } else if (moves === "nested")
        traces.push({ ...line, x: [0, ...group.epsilons], y: [dots[0], ...dots], line: { color, shape: "vh" } });
      traces.push({
        type: "scatter", mode: "markers", name: plain(name), legendgroup: claim,
        x: group.epsilons, y: dots, marker: { color, symbol, size: 9 },
      });
    }
    for (const subject of subjectsOf(group)) {
      const attack = group.attacks[subject][of.angle ? "degrees" : "deviation"].map((values) => of(values));
      const { title: name, colour: color, symbol } = ATTACKS[subject];
      const legendgroup = ` attack ${subject}`;
      traces.push({
        type: "scatter", mode: "lines", legendgroup, showlegend: false, hoverinfo: "skip",
        x: [...group.epsilons, last], y: [...attack, attack[attack.length - 1]], line: { color, shape: "hv" },
      });
      traces.push({
        type: "scatter", mode: "markers", name: plain(name), legendgroup,
        x: group.epsilons, y: attack, marker: { color, symbol, size: 9 },
      });
    }
    return traces;
  };
  const meanOf = Object.assign((values) => mean(values), { angle: false });
  const angleOf = Object.assign((values) => median(values), { angle: true });
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
    const attack = found.attacks.find((row) => row.subject === state.network)?.values
      ?? state.group.samples.map(() => NaN);
    for (const place of document.querySelectorAll(".attacked"))
      place.textContent = data.networks[state.network];
    drawScatter(found, attack);
    drawGaps(found, attack);
    drawCurves();
  };

  const redrawList = drawLists(data.lists, layout, config);

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

  const positive = data.groups.every((group) =>
    Object.values(group.attacks).every(({ deviation }) => deviation.flat().every((v) => !(v <= 0))));
  byId("log").checked = positive;
  byId("log").addEventListener("change", draw);
  byId("network")?.addEventListener("change", (event) => {
    state.network = event.target.value;
    draw();
  });
  byId("group").addEventListener("change", (event) => setGroup(Number(event.target.value)));
  byId("epsilon").addEventListener("input", (event) => setEpsilon(Number(event.target.value)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    draw();
    redrawList();
  });
  // What is wider than the screen says so.
  const hints = () => {
    for (const box of document.querySelectorAll(".scroll")) {
      const before = box.previousElementSibling;
      const there = before?.classList.contains("hint");
      const wider = box.scrollWidth > box.clientWidth + 1;
      if (there && !wider) before.remove();
      if (wider && !there) {
        const hint = document.createElement("p");
        hint.className = "hint";
        hint.textContent = "The table is wider than the screen: move it sideways →";
        box.before(hint);
      }
    }
  };
  addEventListener("resize", hints);
  byId("print").addEventListener("click", () => {
    document.body.classList.add("alone");
    print();
  });
  const folded = [...document.querySelectorAll("details")];
  const forPrint = (on) => {
    printing = on;
    for (const each of folded) {
      if (on) each.dataset.was = String(each.open);
      each.open = on || each.dataset.was === "true";
    }
    if (!on) document.body.classList.remove("alone");
    const number = data.groups.indexOf(state.group);
    for (const block of document.querySelectorAll(".block"))
      block.hidden = !on && Number(block.dataset.group) !== number;
    draw();
    redrawList();
  };
  addEventListener("beforeprint", () => forPrint(true));
  addEventListener("afterprint", () => forPrint(false));
  setGroup(0);
  hints();
  globalThis.attribound = { degrees, boundAt, attackAt, data, state };
})();
