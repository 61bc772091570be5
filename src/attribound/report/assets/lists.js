// Lists of reasons: one sample at a time, found by its id. ``ready`` is called with the layout of plots.
const drawLists = (lists, layout, config) => {
  const byId = (id) => document.getElementById(id);
  if (!byId("list")) return () => {};
  const state = { setting: lists[lists.length - 1], sample: 0, whose: null };
  const plain = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const shown = (value) => (value === null ? "unlimited" : Number(value.toPrecision(4)).toString());
  const named = (place) => state.setting.names[place];
  const claimsOf = () =>
    Object.values(state.setting.claims).filter((claim) => claim.whose === state.whose && claim.rows[state.sample]);

  const fill = (element, values, texts) =>
    element.replaceChildren(...values.map((value, i) => {
      const option = document.createElement("option");
      option.value = String(value);
      if (texts) option.textContent = texts[i];
      return option;
    }));

  const row = (cells, body) => {
    const line = body.insertRow();
    cells.forEach((text, i) => {
      const cell = i ? line.insertCell() : line.appendChild(document.createElement("th"));
      if (!i) cell.scope = "row";
      cell.textContent = text;
    });
    return line;
  };

  const draw = () => {
    const claims = claimsOf();
    const { setting, sample } = state;
    const id = setting.samples[sample];
    const body = byId("list-table").tBodies[0];
    body.replaceChildren();
    if (!claims.length) {
      byId("list-said").textContent = `Nothing is known of ${id} here.`;
      Plotly.purge("list");
      return;
    }
    const first = claims[claims.length - 1].rows[sample];
    const k = first.features.length;
    const said = claims.map((claim) => {
      const { kept } = claim.rows[sample];
      return `${kept === k ? `all ${k}` : `at least ${kept} of ${k}`} stay (${claim.title})`;
    });
    const came = first.there.filter((place) => !first.features.includes(place)).map(named);
    byId("list-said").textContent =
      `${id}: ${said.join("; ")}. An attack left ${first.left === k ? "all" : first.left}` +
      `${came.length ? `; in came ${came.join(", ")}` : ""}.`;
    byId("list-caption").textContent = `Reasons of ${id}, ${setting.title}, of ${state.whose}`;
    first.features.forEach((place, i) => {
      const ends = claims.map((claim) => {
        const own = claim.rows[sample];
        const at = own.features.indexOf(place);
        return at < 0 ? "-" : `${shown(own.low[at])} to ${shown(own.high[at])}, ${own.stays[at] ? "stays" : "open"}`;
      });
      const gone = first.there.includes(place) ? "" : ", gone";
      row([named(place), shown(first.values[i]), shown(first.attacked[i]) + gone, ...ends], body);
    });
    const head = byId("list-table").tHead.rows[0];
    while (head.cells.length > 3) head.deleteCell(3);
    for (const claim of claims) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = claim.title;
      head.append(cell);
    }
    const y = first.features.map((_, i) => k - 1 - i);
    const traces = [{
      type: "bar", orientation: "h", name: "score", x: first.values, y, width: 0.5,
      marker: { color: first.values.map((v) => (v < 0 ? "#4393c3" : "#d6604d")), opacity: 0.55 },
      text: first.features.map((place) => plain(named(place))), hovertemplate: "%{text}: %{x:.4g}<extra></extra>",
      textposition: "none",
    }];
    claims.forEach((claim, number) => {
      const own = claim.rows[sample];
      const x = [], heights = [];
      first.features.forEach((place, i) => {
        const at = own.features.indexOf(place);
        if (at < 0 || own.low[at] === null || own.high[at] === null) return;
        const height = y[i] + 0.14 * (number - (claims.length - 1) / 2);
        x.push(own.low[at], own.high[at], null);
        heights.push(height, height, null);
      });
      traces.push({
        type: "scatter", mode: "lines+markers", name: plain(claim.title), x, y: heights,
        line: { color: claim.colour, width: 3 }, marker: { color: claim.colour, symbol: "line-ns-open", size: 9 },
        hovertemplate: "%{x:.4g}<extra></extra>",
      });
    });
    traces.push({
      type: "scatter", mode: "markers", name: "under attack", x: first.attacked, y,
      marker: { color: "#888888", symbol: "x", size: 9 }, hovertemplate: "%{x:.4g}<extra></extra>",
    });
    // On a phone names stand above the bars: beside them they would leave no room.
    const narrow = byId("list").clientWidth < 560;
    const texts = first.features.map((place) => plain(named(place)));
    const above = texts.map((text, i) => ({
      xref: "paper", x: 0, xanchor: "left", y: y[i] + 0.27, yanchor: "bottom", showarrow: false, text, align: "left",
    }));
    Plotly.react("list", traces, layout({
      margin: { l: narrow ? 12 : 10, r: 12, t: 12, b: 40 },
      xaxis: { title: { text: "score" }, nticks: narrow ? 4 : undefined, tickangle: 0 },
      yaxis: { tickvals: y, ticktext: texts, range: [-0.6, k - 0.2], showticklabels: !narrow },
      annotations: narrow ? above : [],
    }, true), config);
  };

  const setSample = (number) => {
    const count = state.setting.samples.length;
    state.sample = ((number % count) + count) % count;
    byId("find").value = state.setting.samples[state.sample];
    byId("find").setCustomValidity("");
    draw();
  };
  const setSetting = (number) => {
    state.setting = lists[number];
    const whose = [...new Set(Object.values(state.setting.claims).map((claim) => claim.whose))];
    if (!whose.includes(state.whose)) state.whose = state.setting.claims[state.setting.best].whose;
    fill(byId("whose"), whose, whose);
    byId("whose").value = state.whose;
    byId("whose-field").hidden = whose.length < 2;
    fill(byId("ids"), state.setting.samples);
    const { samples, total } = state.setting;
    byId("list-some").textContent =
      samples.length < total ? `${samples.length} of ${total} are here, evenly spread; the rows of the run have all.` : "";
    for (const block of document.querySelectorAll(".replaced"))
      block.hidden = Number(block.dataset.setting) !== number;
    setSample(Math.min(state.sample, samples.length - 1));
  };
  byId("setting").addEventListener("change", (event) => setSetting(Number(event.target.value)));
  byId("whose").addEventListener("change", (event) => {
    state.whose = event.target.value;
    draw();
  });
  byId("find").addEventListener("change", (event) => {
    const at = state.setting.samples.indexOf(event.target.value.trim());
    event.target.setCustomValidity(at < 0 ? "no such sample" : "");
    if (at < 0) byId("list-said").textContent = `There is no ${event.target.value} here.`;
    else setSample(at);
  });
  byId("before").addEventListener("click", () => setSample(state.sample - 1));
  byId("after").addEventListener("click", () => setSample(state.sample + 1));
  byId("setting").value = String(lists.length - 1);
  setSetting(lists.length - 1);
  return draw;
};
