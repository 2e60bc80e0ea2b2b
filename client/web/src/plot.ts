// A figure in a file of its own: `luthier plot … --out x.html`. The figure is in the page as JSON; nothing is fetched.
import { drawSign, legendOf, PanelView, rowsOf, type Figure } from "./figure";

const ROWS = 1000; // Of a table.

function element<K extends keyof HTMLElementTagNameMap>(name: K, text = "", className = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

const figure = JSON.parse(document.getElementById("figure")!.textContent!) as Figure;
document.title = figure.title;
const main = element("main");
main.append(element("h1", figure.title));
const grid = element("div", "", "grid");
grid.classList.add(`of${Math.min(3, figure.panels.length === 1 ? 1 : figure.columns)}`);
const views: PanelView[] = [];
const made: [HTMLElement, Figure["panels"][number]][] = [];
for (const panel of figure.panels) {
  const box = element("figure");
  if (panel.title) box.append(element("h2", panel.title));
  const drawing = element("div", "", "plot");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `${figure.title}. ${figure.caption}`);
  box.append(drawing);
  const legend = element("ul", "", "legend");
  for (const sign of legendOf(panel)) {
    const line = element("li");
    const canvas = element("canvas");
    canvas.setAttribute("aria-hidden", "true");
    line.append(canvas, sign.name);
    legend.append(line);
    queueMicrotask(() => drawSign(canvas, sign));
  }
  box.append(legend);
  grid.append(box);
  made.push([drawing, panel]);
}
main.append(grid, element("p", figure.caption));
const details = element("details");
details.append(element("summary", "as a table"));
details.addEventListener("toggle", () => {
  if (details.childElementCount > 1) return;
  for (const panel of figure.panels) {
    const table = element("table");
    for (const [i, row] of rowsOf(panel, ROWS).entries()) {
      const line = element("tr");
      line.append(...row.map((text) => element(i === 0 ? "th" : "td", text)));
      table.append(line);
    }
    details.append(table);
  }
});
main.append(details);
document.body.append(main);
for (const [drawing, panel] of made) views.push(new PanelView(drawing, panel, { height: figure.panels.length === 1 ? 440 : 300 }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => views.forEach((view) => view.redraw()));
