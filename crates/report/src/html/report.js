// Makes the pictures of report.html interactive: draws the figures that stand as JSON in `#figures`
// (made by html/charts.rs) with Observable Plot, each in the place of its static picture. All texts come
// into the page as text, never as markup. Without this script the static pictures stay.
(() => {
  "use strict";

  const { axes, figures } = JSON.parse(document.getElementById("figures").textContent);
  // What readers chose: a value per axis of the plan, and the inks that they switched off.
  const chosen = {};
  const off = new Set();
  const views = [];

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  const svgElement = (tag, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // ---- inks -------------------------------------------------------------------------------------

  const DASHES = { h1: "8 4", h3: "5 4" };
  const SYMBOLS = { h1: "square", h2: "circle", h3: "triangle" };

  const look = (ink) => {
    const [kind, at, of] = ink.split("-");
    if (kind === "null") return { color: `var(--${at})`, opacity: 0.45, dash: "2 3", symbol: SYMBOLS[at] };
    if (kind === "step") {
      const share = of > 1 ? Math.round((100 * at) / (of - 1)) : 0;
      const symbols = ["circle", "square", "triangle", "diamond", "star", "cross"];
      const color = `color-mix(in oklab, var(--last) ${share}%, var(--first))`;
      return { color, opacity: 1, symbol: symbols[at % symbols.length] };
    }
    return { color: `var(--${kind})`, opacity: 1, dash: DASHES[kind], symbol: SYMBOLS[kind] ?? "circle" };
  };

  // Protocols are switched in all figures at once, other inks in their own.
  const name = (figure, ink) => (/^h\d$/.test(ink) ? ink : `${figure.name}/${ink}`);
  const isOff = (figure, ink) => off.has(name(figure, ink));

  // ---- numbers ----------------------------------------------------------------------------------

  const number = (value, decimals) => value.toFixed(decimals).replace("-", "\u2212");
  const decimals = (span) => Math.min(6, Math.max(0, Math.ceil(2.5 - Math.log10(span || 1))));
  // A place or a value as text: as its tick says; between two ticks where these are no quantity.
  const quantity = (value, axis) => {
    const { ticks } = axis;
    const tick = ticks.find(([place]) => place === value);
    const isOrder = !axis.unit && ticks.some(([, text]) => Number.isNaN(Number(text.replace("\u2212", "-"))));
    if (isOrder && !tick) {
      const above = ticks.findIndex(([place]) => place > value);
      if (above < 1) return (ticks[above] ?? ticks[ticks.length - 1])[1];
      return `between ${ticks[above - 1][1]} and ${ticks[above][1]}`;
    }
    const text = tick?.[1] || number(value, decimals(axis.to - axis.from));
    return axis.unit ? `${text}\u00a0${axis.unit}` : text;
  };
  const nearest = ({ ticks }, value) => ticks.find(([at]) => Math.abs(at - value) <= 0.5)?.[1];
  const place = (axis, value) => [axis.name, quantity(value, axis)].filter(Boolean).join(" ");

  // ---- marks ------------------------------------------------------------------------------------

  const drawSeries = (mark, panel) => {
    const { color, opacity, dash, symbol } = look(mark.ink);
    const points = mark.points.map(([x, y, low, high]) => ({ x: x + mark.aside, y, low, high }));
    const spread = points.filter((point) => point.low != null);
    const at = { x: "x", y: "y", clip: true };
    const marks = [];
    if (mark.spread === "ribbon") {
      const band = { x: "x", y1: "low", y2: "high", clip: true };
      marks.push(Plot.areaY(spread, { ...band, fill: color, fillOpacity: 0.18 * opacity }));
    } else if (mark.spread === "whiskers") {
      const ends = { x1: "x", x2: "x", y1: "low", y2: "high", clip: true };
      marks.push(Plot.link(spread, { ...ends, stroke: color, strokeOpacity: opacity, strokeWidth: 1.75, marker: "tick" }));
    } else if (mark.spread === "bars") {
      const ends = { x: "x", y1: "low", y2: "high", clip: true };
      marks.push(Plot.ruleX(spread, { ...ends, stroke: color, strokeOpacity: 0.35 * opacity, strokeWidth: 9 }));
    }
    const stroke = { stroke: color, strokeOpacity: opacity, strokeWidth: 2, strokeDasharray: dash };
    if (mark.form === "line" || mark.form === "line-and-points") marks.push(Plot.line(points, { ...at, ...stroke }));
    if (mark.form === "steps") {
      const last = points.length ? points[points.length - 1].y : 0;
      const stairs = [{ x: panel.x.from, y: 0 }, ...points, { x: panel.x.to, y: last }];
      marks.push(Plot.line(stairs, { ...at, ...stroke, curve: "step-after" }));
    }
    if (mark.form === "points" || mark.form === "line-and-points") {
      marks.push(Plot.dot(points, { ...at, fill: color, fillOpacity: opacity, symbol, r: 4.5 }));
    }
    if (mark.form === "specks") marks.push(Plot.dot(points, { ...at, fill: color, fillOpacity: 0.35, r: 2 }));
    return marks;
  };

  const drawTiles = (mark, room) => {
    const color = ({ value }) => {
      const share = Math.round(Math.min(1, Math.abs(value) / mark.limit) * 75);
      return `color-mix(in oklab, var(--${value < 0 ? mark.below : mark.above}) ${share}%, var(--page))`;
    };
    const side = {
      x1: ({ at }) => at[0] - 0.5,
      x2: ({ at }) => at[0] + 0.5,
      y1: ({ at }) => at[1] - 0.5,
      y2: ({ at }) => at[1] + 0.5,
      inset: 0.75,
      clip: true,
    };
    const measured = mark.tiles.filter(({ value }) => value != null);
    const unsure = measured.filter(({ sure }) => !sure);
    const fitting = mark.tiles.filter(({ text }) => text.length * 8 + 6 < room);
    return [
      Plot.rect(mark.tiles, { ...side, fill: "none", stroke: "var(--line)" }),
      Plot.rect(measured, { ...side, fill: color }),
      Plot.rect(unsure, { ...side, fill: "url(#hatch)" }),
      Plot.text(fitting, { x: ({ at }) => at[0], y: ({ at }) => at[1], text: "text", fill: "var(--ink)", clip: true }),
    ];
  };

  const ANCHORS = { before: "end", centre: "middle", after: "start" };
  const LINES = { before: "top", centre: "middle", after: "bottom" };

  const drawMark = (mark, panel, figure, room) => {
    const { color, opacity } = look(mark.ink ?? "plain");
    switch (mark.kind) {
      case "series":
        return drawSeries(mark, panel);
      case "tiles":
        return drawTiles(mark, room);
      case "area": {
        const fill = { fill: color, fillOpacity: mark.ink === "faint" ? 0.18 : 0.13, stroke: "none" };
        return [Plot.line(mark.outline, { ...fill, curve: "linear-closed", clip: true })];
      }
      case "bars": {
        const sides = { x1: "from", x2: "to", y1: ({ y, breadth }) => y - breadth / 2, y2: ({ y, breadth }) => y + breadth / 2 };
        const fill = { fill: ({ ink }) => look(ink).color, fillOpacity: "strength" };
        return [Plot.rect(mark.bars.filter((bar) => !isOff(figure, bar.ink)), { ...sides, ...fill, clip: true })];
      }
      case "rule": {
        const ends = { x1: mark.from[0], x2: mark.to[0], y1: mark.from[1], y2: mark.to[1], clip: true };
        const stroke = { stroke: color, strokeOpacity: opacity, strokeWidth: 1.25, strokeDasharray: mark.dashed ? "5 4" : undefined };
        return [Plot.link([0], { ...ends, ...stroke })];
      }
      default: {
        const anchors = { textAnchor: ANCHORS[mark.align[0]], lineAnchor: LINES[mark.align[1]] };
        return [Plot.text([mark.text], { x: [mark.at[0]], y: [mark.at[1]], ...anchors, fill: "var(--soft)", clip: true })];
      }
    }
  };

  // ---- what can be pointed at ---------------------------------------------------------------------

  // Places with what is to be read there; those of a row are walked through with the arrow keys.
  const targetsOf = (panel, figure) => {
    const targets = [];
    const { x: xs, y: ys } = panel;
    panel.marks.forEach((mark, row) => {
      if (mark.ink && isOff(figure, mark.ink)) return;
      if (mark.kind === "series" && mark.form !== "specks") {
        for (const [x, y, low, high, of] of mark.points) {
          const lines = [`${mark.name} · ${place(xs, x)}`, `${mark.value}: ${quantity(y, ys)}`];
          if (low != null) lines.push(`${mark.interval}: ${quantity(low, ys)} to ${quantity(high, ys)}`);
          if (of != null) lines.push(`of ${of} ${mark.value === "difference" ? "pairs" : "transfers"}`);
          targets.push({ x: x + mark.aside, y, row, text: lines.join("\n"), isAside: false });
        }
      } else if (mark.kind === "tiles") {
        for (const { at, note } of mark.tiles) {
          const text = `${place(xs, at[0])} · ${place(ys, at[1])}\n${note}`;
          targets.push({ x: at[0], y: at[1], row: at[1], text, isAside: false });
        }
      } else if (mark.kind === "bars") {
        for (const { name, ink, from, to, y } of mark.bars) {
          if (isOff(figure, ink)) continue;
          const rowName = nearest(ys, y);
          const text = `${rowName ? `${rowName} · ` : ""}${name}\n${quantity(from, xs)} to ${quantity(to, xs)}`;
          targets.push({ x: (from + to) / 2, y, row: y, text, isAside: false });
        }
      } else if (mark.kind === "rule" && mark.name && mark.ink !== "plain") {
        const middle = [(mark.from[0] + mark.to[0]) / 2, (mark.from[1] + mark.to[1]) / 2];
        targets.push({ x: middle[0], y: middle[1], row, text: mark.name, isAside: true });
      }
    });
    return targets.sort((a, b) => a.isAside - b.isAside);
  };

  // The nearest other target to the right (1, 0), left, above or below, in the row or the next one.
  const neighbour = (targets, from, [right, up]) => {
    const distance = (to) => {
      const [dx, dy] = [to.px - from.px, from.py - to.py];
      if (right) return to.row === from.row && dx * right > 0 ? Math.abs(dx) : Infinity;
      return to.row !== from.row && dy * up > 0 ? Math.abs(dx) * 4 + Math.abs(dy) : Infinity;
    };
    const best = targets.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    return distance(best) < Infinity ? best : from;
  };

  const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  // ---- a chart ------------------------------------------------------------------------------------

  const zoomed = (panel, zoom) => {
    if (!zoom) return panel;
    const within = panel.marks
      .filter((mark) => mark.kind === "series" && mark.form !== "steps")
      .flatMap((mark) => mark.points)
      .filter(([x]) => x >= zoom[0] && x <= zoom[1]);
    const ends = within.flatMap(([, y, low, high]) => [y, low ?? y, high ?? y]);
    const x = { ...panel.x, from: zoom[0], to: zoom[1] };
    if (!ends.length) return { ...panel, x };
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const air = (high - low || Math.abs(high) || 1) / 12;
    return { ...panel, x, y: { ...panel.y, from: low - air, to: high + air } };
  };

  // The ticks within an axis, or so many of them that their texts do not crowd; round ones when none is left.
  const ticksOf = (axis, room, breadth) => {
    const within = axis.ticks.filter(([place]) => place >= axis.from && place <= axis.to);
    if (within.length < 2 && axis.ticks.length >= 2) return undefined;
    const step = Math.ceil((within.length * breadth) / room) || 1;
    return within.filter((_, i) => i % step === 0);
  };

  const axisOptions = (axis, ticks) => {
    const options = { label: axis.unit ? `${axis.name} (${axis.unit})` : axis.name, labelArrow: "none", color: "var(--soft)" };
    if (!ticks) return options;
    const texts = new Map(ticks);
    return { ...options, ticks: ticks.map(([place]) => place), tickFormat: (place) => texts.get(place) };
  };

  const isTable = ({ marks }) => marks.some(({ kind }) => kind === "tiles" || kind === "bars");

  const draw = (panel, figure, width, label) => {
    const longest = (axis) => Math.max(3, ...axis.ticks.map(([, text]) => text.length));
    const rows = isTable(panel) ? panel.y.to - panel.y.from : 0;
    const height = Math.round(Math.max(260, Math.min(440, width * 0.55), rows * 26 + 86));
    const marginLeft = Math.min(width / 3, 16 + 7.5 * longest(panel.y));
    const room = width - marginLeft - 18;
    const xTicks = ticksOf(panel.x, room, 14 + 7.5 * longest(panel.x));
    const yTicks = ticksOf(panel.y, height - 86, 22);
    const scale = (axis) => ({ type: axis.log ? "log" : "linear", domain: [axis.from, axis.to] });
    const shown = panel.marks.filter((mark) => !mark.ink || !isOff(figure, mark.ink));
    const grid = (ticks) => ({ ticks: ticks?.map(([place]) => place), stroke: "var(--line)", strokeOpacity: 1 });
    const plot = Plot.plot({
      width,
      height,
      marginLeft,
      marginRight: 18,
      marginTop: 34,
      marginBottom: 52,
      x: scale(panel.x),
      y: scale(panel.y),
      color: { type: "identity" },
      symbol: { type: "identity" },
      style: { fontFamily: "inherit", fontSize: "13px" },
      marks: [
        Plot.gridX(grid(xTicks)),
        Plot.gridY(grid(yTicks)),
        ...shown.flatMap((mark) => drawMark(mark, panel, figure, room / (panel.x.to - panel.x.from))),
        Plot.axisX({ anchor: "bottom", labelAnchor: "center", ...axisOptions(panel.x, xTicks) }),
        Plot.axisY({ anchor: "left", labelAnchor: "top", ...axisOptions(panel.y, yTicks) }),
      ],
    });
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", `${label}. Arrow keys read the values.`);
    plot.setAttribute("tabindex", "0");
    return plot;
  };

  // Reads values to pointers and to arrow keys; drags and +, \u2212, 0 choose a part of the x-axis.
  const explore = (plot, panel, figure, tip, zoomTo) => {
    const [x, y] = [plot.scale("x"), plot.scale("y")];
    const isMap = isTable(panel);
    const targets = targetsOf(panel, figure)
      .map((target) => ({ ...target, px: x.apply(target.x), py: y.apply(target.y) }))
      .filter(({ x: place }) => place >= panel.x.from && place <= panel.x.to);
    const ring = svgElement("circle", { r: 8, class: "ring", visibility: "hidden" });
    const choice = svgElement("rect", { class: "choice", y: 34, height: plot.getAttribute("height") - 86, width: 0 });
    plot.append(choice, ring);
    let at = null;
    let began = null;

    const show = (target) => {
      at = target;
      ring.setAttribute("visibility", target ? "visible" : "hidden");
      tip.hidden = !target;
      if (!target) return;
      ring.setAttribute("cx", target.px);
      ring.setAttribute("cy", target.py);
      tip.textContent = target.text;
      // Beside the place, on the side that has room.
      const [box, holder] = [plot.getBoundingClientRect(), tip.parentNode.getBoundingClientRect()];
      const shrink = box.width / plot.getAttribute("width");
      const px = box.left - holder.left + target.px * shrink;
      const py = box.top - holder.top + target.py * shrink;
      const left = px > holder.width / 2;
      tip.style.left = left ? "auto" : `${px + 14}px`;
      tip.style.right = left ? `${holder.width - px + 14}px` : "auto";
      tip.style.top = `${Math.max(0, py - 24)}px`;
    };
    const pointed = (event) => {
      const box = plot.getBoundingClientRect();
      const grow = plot.getAttribute("width") / box.width;
      return [(event.clientX - box.left) * grow, (event.clientY - box.top) * grow];
    };
    const zoomBetween = (one, other) => {
      const ends = [x.invert(Math.min(one, other)), x.invert(Math.max(one, other))];
      zoomTo([Math.max(ends[0], panel.x.from), Math.min(ends[1], panel.x.to)]);
    };

    plot.addEventListener("pointermove", (event) => {
      const [px, py] = pointed(event);
      if (began !== null) {
        choice.setAttribute("x", Math.min(px, began));
        choice.setAttribute("width", Math.abs(px - began));
        return;
      }
      const far = (target) => Math.abs(target.px - px) + 0.6 * Math.abs(target.py - py);
      const near = targets.length ? targets.reduce((a, b) => (far(b) < far(a) ? b : a)) : null;
      show(near && (isMap || far(near) < 90) ? near : null);
    });
    plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0 && zoomTo) began = pointed(event)[0];
    });
    plot.addEventListener("pointerup", (event) => {
      const [px] = pointed(event);
      if (began !== null && Math.abs(px - began) > 12) zoomBetween(px, began);
      began = null;
      choice.setAttribute("width", 0);
    });
    plot.addEventListener("pointerleave", () => {
      began = null;
      choice.setAttribute("width", 0);
      show(null);
    });
    plot.addEventListener("focus", () => targets.length && plot.matches(":focus-visible") && show(at ?? targets[0]));
    plot.addEventListener("blur", () => show(null));
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key in ARROWS && targets.length) show(at ? neighbour(targets, at, ARROWS[event.key]) : targets[0]);
      else if (event.key === "Escape") show(null);
      else if (event.key === "0" && zoomTo) zoomTo(null);
      else return;
      event.preventDefault();
    });
  };

  // Panels that are shown side by side at most.
  const MOST_PANELS = 24;

  // ---- a figure -----------------------------------------------------------------------------------

  // Whether there is a panel for every choice; else the figure has a choice of its own.
  const fillsItsAxes = ({ panels }) => {
    const used = axes.filter(({ name: axis }) => panels.some(({ at }) => axis in at));
    const places = new Set(panels.map(({ at }) => JSON.stringify(at)));
    const all = used.reduce((product, { values }) => product * values.length, 1);
    return places.size === panels.length && all === panels.length;
  };
  const suits = (panel) => Object.entries(panel.at).every(([axis, value]) => chosen[axis] === value);

  const swatch = (ink, filled) => {
    const { color, opacity, dash } = look(ink);
    const path = svgElement("path", { d: "M0 6H28" });
    const breadth = filled ? 12 : 3;
    path.style.cssText = `stroke:${color};stroke-opacity:${opacity};stroke-width:${breadth};stroke-dasharray:${(!filled && dash) || "none"}`;
    return svgElement("svg", { width: 28, height: 12, "aria-hidden": "true" }, path);
  };

  // A key can be switched off where marks have its ink; in a map the two inks are one scale.
  const legendOf = (figure) => {
    const marks = figure.panels.flatMap((panel) => panel.marks);
    const inks = new Set(marks.flatMap((mark) => (mark.kind === "bars" ? mark.bars.map(({ ink }) => ink) : [mark.ink])));
    const filled = marks.some(({ kind }) => kind === "bars" || kind === "tiles");
    const legend = element("div", { class: "legend", role: "group", "aria-label": "Shown" });
    for (const { ink, name: text } of figure.legend) {
      if (!inks.has(ink)) {
        legend.append(element("span", {}, swatch(ink, filled), text));
        continue;
      }
      const box = element("input", { type: "checkbox" });
      box.checked = true;
      box.dataset.ink = name(figure, ink);
      box.addEventListener("change", () => {
        box.checked ? off.delete(box.dataset.ink) : off.add(box.dataset.ink);
        for (const other of document.querySelectorAll(".legend input")) other.checked = !off.has(other.dataset.ink);
        drawAll();
      });
      legend.append(element("label", {}, box, swatch(ink, filled), text));
    }
    return legend;
  };

  // A figure may hold many panels: the one that suits the choice is shown, or all of them.
  const view = (figure, holder) => {
    const chart = element("div", { class: "chart" });
    const tip = element("div", { class: "tip", role: "status", hidden: "" });
    const buttons = element("div", { class: "buttons" });
    const isQuantity = !figure.panels.some(isTable);
    const isPlaced = fillsItsAxes(figure);
    let which = 0;
    let zoom = null;
    // A narrow page has room for one panel a row, and each is to be seen there without a choice.
    const isNarrow = holder.clientWidth < 560 && figure.panels.length > 1 && figure.panels.length <= MOST_PANELS;
    let every = isNarrow;
    let width = 0;

    const button = (text, what) => {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", what);
      buttons.append(made);
      return made;
    };
    const shown = () => {
      if (every) return figure.panels;
      return isPlaced ? figure.panels.filter(suits).slice(0, 1) : [figure.panels[which]];
    };
    const zoomTo = (range) => {
      zoom = range;
      paint();
      chart.querySelector("svg")?.focus({ preventScroll: true });
    };
    const zoomBy = (factor) => {
      const [panel] = shown();
      if (!panel) return;
      const [from, to] = zoom ?? [panel.x.from, panel.x.to];
      const half = ((to - from) * factor) / 2;
      const middle = factor < 1 && !zoom ? from + half : (from + to) / 2;
      const range = [Math.max(panel.x.from, middle - half), Math.min(panel.x.to, middle + half)];
      const whole = range[0] <= panel.x.from && range[1] >= panel.x.to;
      zoom = whole ? null : range;
      paint();
    };
    const paint = () => {
      width = holder.clientWidth;
      tip.hidden = true;
      const panels = shown();
      const columns = every ? Math.max(1, Math.min(3, Math.floor(width / 340))) : 1;
      chart.style.setProperty("--columns", columns);
      const each = Math.floor((width - 12 * (columns - 1)) / columns);
      chart.replaceChildren(
        ...panels.map((whole) => {
          const panel = zoomed(whole, every ? null : zoom);
          const plot = draw(panel, figure, each, whole.title ? `${figure.title}: ${whole.title}` : figure.title);
          explore(plot, panel, figure, tip, isQuantity && !every && !panel.x.log ? zoomTo : null);
          const part = element("div", { class: "panel" });
          if (figure.panels.length > 1) part.append(element("p", { class: "part" }, whole.title));
          part.append(plot);
          return part;
        }),
      );
    };

    if (isQuantity) {
      button("Zoom in", () => zoomBy(0.5)).title = "Or drag across the chart";
      button("Zoom out", () => zoomBy(2));
      button("Whole axis", () => ((zoom = null), paint()));
    }
    if (!isPlaced) {
      const select = element("select", { "aria-label": "Part" }, ...figure.panels.map(({ title }) => element("option", {}, title)));
      select.addEventListener("change", () => ((which = select.selectedIndex), paint()));
      buttons.append(select);
    }
    if (figure.panels.length > 1 && figure.panels.length <= MOST_PANELS) {
      const all = button(`All ${figure.panels.length} side by side`, () => {
        every = !every;
        all.setAttribute("aria-pressed", every);
        paint();
      });
      all.setAttribute("aria-pressed", every);
    }
    const place = element("div", { class: "interactive" }, legendOf(figure), chart, buttons, tip);
    holder.after(place);
    try {
      paint();
    } catch (error) {
      place.remove();
      throw error;
    }
    holder = place;
    new ResizeObserver(() => {
      if (place.clientWidth && place.clientWidth !== width) requestAnimationFrame(paint);
    }).observe(place);
    return { paint };
  };

  const drawAll = () => views.forEach(({ paint }) => paint());

  const controls = () => {
    const placed = figures.filter(fillsItsAxes).flatMap(({ panels }) => panels);
    const used = axes.filter(({ name: axis }) => placed.some(({ at }) => axis in at));
    if (!used.length) return null;
    const bar = element("form", { class: "controls", "aria-label": "What the charts show" });
    for (const { name: axis, values } of used) {
      const select = element("select", {}, ...values.map((value) => element("option", {}, value)));
      select.addEventListener("change", () => {
        chosen[axis] = values[select.selectedIndex];
        drawAll();
      });
      bar.append(element("label", {}, axis, select));
    }
    return bar;
  };

  // What hatches the cells of maps whose sign is not sure.
  const hatch = () => {
    const path = svgElement("path", { d: "M0 0V7" });
    path.style.cssText = "stroke:var(--ink);stroke-opacity:.35;stroke-width:2";
    const size = { width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
    const pattern = svgElement("pattern", { id: "hatch", ...size }, path);
    document.body.append(svgElement("svg", { width: 0, height: 0, "aria-hidden": "true", class: "patterns" }, pattern));
  };

  for (const { name: axis, values } of axes) chosen[axis] = values[0];
  hatch();
  const bar = controls();
  const first = document.querySelector("figure[data-figure]");
  if (bar && first) first.before(bar);
  for (const figure of figures) {
    const place = document.querySelector(`figure[data-figure="${figure.name}"]`);
    const still = place?.querySelector(".picture");
    if (!still) continue;
    try {
      views.push(view(figure, still));
      still.hidden = true;
      place.classList.add("live");
    } catch (error) {
      console.error(error);
    }
  }
})();
