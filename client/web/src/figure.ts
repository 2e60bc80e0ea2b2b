// Draws figures: pictures as data, as client/plot/figure.h describes them. uPlot draws axes and follows the pointer;
// marks are drawn here, on its canvas.
import uPlot from "uplot";
import { visible } from "./visible";

export type Mark = "points" | "line" | "steps" | "band" | "segments" | "boxes" | "whiskers";
export type Role =
  | "trial" | "pruned" | "failed" | "infeasible" | "outside" | "open" | "best" | "recommended" | "incumbent" | "other" | "reference" | "model"
  | "gradient" | "shaded";
export type Numbers = ArrayLike<number | null>;

export interface Layer {
  mark: Mark;
  role: Role;
  name: string;
  x: Numbers;
  y: Numbers;
  x2?: Numbers;
  y2?: Numbers;
  colour?: Numbers;
  trials?: ArrayLike<number>;
  shade?: number;
  halo?: boolean; // Points have a rim of the page's colour, so that they are seen on colours.
  series?: number; // Of several that are compared: which one.
}

export interface Axis {
  label: string;
  log?: boolean;
  whole?: boolean; // Ticks at whole numbers alone.
  min?: number;
  max?: number;
  ticks?: { at: number; text: string }[];
}

export interface Panel {
  title?: string;
  x: Axis;
  y: Axis;
  colour?: Axis;
  dark_low?: boolean;
  layers: Layer[];
  notes?: { x: number; y: number; text: string; above: boolean }[];
  empty?: string;
}

export interface Figure {
  kind: string;
  title: string;
  caption: string;
  columns: number;
  panels: Panel[];
}

interface Theme {
  dark: boolean;
  ink: string;
  faint: string;
  paper: string;
}

// Colours of roles, light and dark. Shapes differ, too: nothing is said by colour alone.
const COLOURS: Record<Role, [string, string]> = {
  trial: ["#64748b", "#94a3b8"],
  pruned: ["#0891b2", "#22d3ee"],
  failed: ["#c2410c", "#fb923c"],
  infeasible: ["#a16207", "#facc15"],
  outside: ["#64748b", "#94a3b8"],
  open: ["#15803d", "#4ade80"],
  best: ["#b91c1c", "#fca5a5"],
  recommended: ["#7e22ce", "#d8b4fe"],
  incumbent: ["#1d4ed8", "#60a5fa"],
  other: ["#b45309", "#fbbf24"],
  reference: ["#475569", "#cbd5e1"],
  model: ["#15803d", "#4ade80"],
  gradient: ["#be185d", "#f472b6"],
  shaded: ["#1d4ed8", "#60a5fa"],
};
// Colours and dashes of what is compared.
const SERIES: [string, string, number[]][] = [
  ["#0072b2", "#56b4e9", []], ["#b45f06", "#ffb454", [8, 4]], ["#00795a", "#3ddbb0", [2, 3]], ["#a8326f", "#f29bc8", [10, 3, 2, 3]],
  ["#5b3fb0", "#b8a5ff", [5, 3]], ["#c0392b", "#ff8a7a", [2, 2, 8, 2]], ["#6b5a00", "#e0cf60", [14, 4]], ["#3d3d3d", "#d8d8d8", [1, 3]],
];
const PALE: [number[], number[]] = [[0xcb, 0xd5, 0xe1], [0x33, 0x41, 0x55]];
const DARK: [number[], number[]] = [[0x12, 0x2b, 0x6e], [0xa5, 0xc8, 0xff]];
const BESIDE = 6; // Pixels beside the frame in which marks of points on its edges are drawn whole.
const WHOLE = [1, 2, 5].flatMap((m) => Array.from({ length: 9 }, (_, k) => m * 10 ** k)).sort((a, b) => a - b);
const CHARACTER = 7; // Pixels of one below the frame.
const HUGE = 1e300; // Numbers beyond it are drawn in units of it.
const CLOSE = 1e-4; // Numbers that differ by less than this part of their size need more than five digits.
const LINE = 13; // Pixels of a name beside the frame.
const NEAR = 14; // Pixels within which a mark is found.
const MANY = 4000; // More points than these are stamped, smaller.

function themeOf(element: Element): Theme {
  const style = getComputedStyle(element);
  const read = (name: string, other: string) => style.getPropertyValue(name).trim() || other;
  return {
    dark: read("--dark", "0") === "1",
    ink: read("--ink", "#0f172a"),
    faint: read("--line", "#e2e8f0"),
    paper: read("--paper", "#ffffff"),
  };
}

function shaded(share: number, theme: Theme): string {
  const at = theme.dark ? 1 : 0;
  const mix = (i: number) => Math.round(PALE[at]![i]! + Math.min(1, Math.max(0, share)) * (DARK[at]![i]! - PALE[at]![i]!));
  return `rgb(${mix(0)},${mix(1)},${mix(2)})`;
}

const number = (values: Numbers | undefined, i: number): number => {
  const value = values === undefined ? null : values[i];
  return value === null || value === undefined ? NaN : value;
};

/** Returns where a number lies between the ends of an axis: 0 to 1. Ends and numbers may be as large as numbers are. */
export function place(axis: Axis, value: number): number {
  const low = axis.min!, high = axis.max!;
  if (axis.log) return (Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low));
  const span = high - low;
  return Number.isFinite(span) ? (value - low) / span : (value / 2 - low / 2) / (high / 2 - low / 2);
}

/** Returns ends with some room beyond them; those that an axis has stay. */
export function widened(axis: Axis, low: number, high: number): Axis {
  const most = Number.MAX_VALUE;
  if (axis.log) {
    const room = low === high ? 2 : Math.exp(0.03 * (Math.log(high) - Math.log(low)));
    return { ...axis, min: axis.min ?? Math.max(Number.MIN_VALUE, low / room), max: axis.max ?? Math.min(most, high * room) };
  }
  const room = low === high ? (low === 0 ? 1 : 0.1 * Math.abs(low)) : 0.06 * (high / 2 - low / 2);
  return { ...axis, min: axis.min ?? Math.max(-most, low - room), max: axis.max ?? Math.min(most, high + room) };
}

/** Returns an axis whose numbers can be subtracted, and told apart by five digits, with how numbers move there; most stay. The
 * axis's label says so: plot::Eased. */
export function eased(axis: Axis): { axis: Axis; move: ((value: number) => number) | null } {
  const low = axis.min!, high = axis.max!, size = Math.max(Math.abs(low), Math.abs(high));
  const moved = (move: (value: number) => number, words: string) => ({ axis: { ...axis, label: `${axis.label} ${words}`.trim(), log: false, min: move(low), max: move(high) }, move });
  if (axis.ticks || axis.whole) return { axis, move: null };
  if (!axis.log && size > HUGE) return moved((v) => v / HUGE, "/ 1e300");
  if (!axis.log && size > 0 && size < 1 / HUGE) return moved((v) => v * HUGE, "× 1e300");
  if (!(high - low < CLOSE * size)) return { axis, move: null };
  // The offset has no more digits than tell the numbers apart, so that it reads well.
  const unit = 10 ** Math.ceil(Math.log10(high - low)), digits = Math.min(17, Math.max(1, Math.ceil(Math.log10(size / unit)) + 1));
  let offset = Number((Math.floor(low / unit) * unit).toPrecision(digits));
  if (!(Math.abs(low - offset) <= 2 * unit)) offset = low;
  return moved((v) => v - offset, `− ${offset}`);
}

/** Returns the panel with both of its axes eased. */
function easedPanel(panel: Panel): Panel {
  const x = eased(panel.x), y = eased(panel.y);
  if (x.move === null && y.move === null) return panel;
  const all = (values: Numbers | undefined, move: ((value: number) => number) | null) => (values === undefined || move === null ? values : Array.from(values as ArrayLike<number | null>, (v) => (v === null ? NaN : move(v))));
  return {
    ...panel,
    x: x.axis,
    y: y.axis,
    layers: panel.layers.map((l) => ({ ...l, x: all(l.x, x.move)!, y: all(l.y, y.move)!, ...(l.x2 ? { x2: all(l.x2, x.move)! } : {}), ...(l.y2 ? { y2: all(l.y2, y.move)! } : {}) })),
    ...(panel.notes ? { notes: panel.notes.map((n) => ({ ...n, x: x.move ? x.move(n.x) : n.x, y: y.move ? y.move(n.y) : n.y })) } : {}),
  };
}

/** Returns the axis with both ends; those it lacks are the ends of all numbers, with some room. */
export function withEnds(axis: Axis, numbers: (Numbers | undefined)[]): Axis {
  let low = Infinity, high = -Infinity;
  for (const values of numbers) {
    if (values === undefined) continue;
    for (let i = 0; i < values.length; ++i) {
      const value = number(values, i);
      if (!Number.isFinite(value) || (axis.log && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  low = axis.min ?? low;
  high = axis.max ?? high;
  if (low > high) [low, high] = [axis.log ? 0.1 : 0, 1];
  return widened(axis, low, high);
}

/** Returns the ticks of a logarithmic axis: at most `most` powers of ten, or these with twice and five times of them where that
 * leaves room; numbers at equal distances where all of it is less than three such steps. */
export function logTicks(low: number, high: number, most: number): number[] {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const within = (multiples: number[], every = 1) => {
    const found: number[] = [];
    for (let k = Math.ceil(first / every) * every; k <= last; k += every) for (const m of multiples) found.push(Number((m * 10 ** k).toPrecision(3)));
    return found.filter((v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9));
  };
  const fine = within([1, 2, 5]);
  if (fine.length < 3) {
    const rough = (high - low) / Math.max(2, most), size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * size).find((v) => v >= rough)!;
    return Array.from({ length: Math.floor(high / step) - Math.ceil(low / step) + 1 }, (_, k) => Number(((Math.ceil(low / step) + k) * step).toPrecision(12)));
  }
  if (fine.length <= most) return fine;
  const coarse = within([1, 3]);
  if (coarse.length <= most) return coarse;
  for (let every = 1; ; ++every) {
    const powers = within([1], every);
    if (powers.length <= Math.max(2, most)) return powers;
  }
}

/** Returns at most about `most` round numbers at equal distances, of any size that numbers have. */
export function linearTicks(low: number, high: number, most: number): number[] {
  const rough = (high - low) / Math.max(1, most), size = 10 ** Math.floor(Math.log10(rough));
  if (!(size > 0) || !Number.isFinite(rough)) return [low, high];
  const step = [1, 2, 5, 10].map((m) => m * size).find((v) => v >= rough * (1 - 1e-9)) ?? 10 * size;
  const first = Math.ceil(low / step - 1e-9), count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, k) => Number(((first + k) * step).toPrecision(12)));
}

function shape(ctx: CanvasRenderingContext2D, role: Role, x: number, y: number, size: number): void {
  switch (role) {
    case "failed":
      ctx.moveTo(x - size, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.moveTo(x - size, y + size);
      ctx.lineTo(x + size, y - size);
      break;
    case "infeasible":
      ctx.rect(x - size, y - size, 2 * size, 2 * size);
      break;
    case "pruned":
    case "outside": {
      const tip = role === "pruned" ? 1.3 : -1.3;
      ctx.moveTo(x, y - size * tip);
      ctx.lineTo(x + size * 1.2, y + size * 0.8 * Math.sign(tip));
      ctx.lineTo(x - size * 1.2, y + size * 0.8 * Math.sign(tip));
      ctx.closePath();
      break;
    }
    case "best":
      for (let k = 0; k < 4; ++k) {
        const dx = 2.2 * size * Math.cos((k * Math.PI) / 4), dy = 2.2 * size * Math.sin((k * Math.PI) / 4);
        ctx.moveTo(x - dx, y - dy);
        ctx.lineTo(x + dx, y + dy);
      }
      break;
    case "recommended":
      ctx.moveTo(x, y - 2.4 * size);
      ctx.lineTo(x + 2.4 * size, y);
      ctx.lineTo(x, y + 2.4 * size);
      ctx.lineTo(x - 2.4 * size, y);
      ctx.closePath();
      break;
    default:
      ctx.moveTo(x + size, y);
      ctx.arc(x, y, size, 0, 2 * Math.PI);
  }
}

/** Returns a colour, "#rrggbb" or "rgb(r,g,b)", as a pixel of an image. */
function packed(colour: string): number {
  const parts = colour.startsWith("#") ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) : colour.match(/\d+/g)!.map(Number);
  return (0xff000000 | (parts[2]! << 16) | (parts[1]! << 8) | parts[0]!) >>> 0;
}

interface Dot { dx: number; dy: number; alpha: number }
const stamps = new Map<string, Dot[]>();

/** Returns the pixels of a role's shape around its middle. */
// What points are stamped on: the last one is used again for an image of the same size.
interface Sheet { canvas: HTMLCanvasElement; image: ImageData; pixels: Uint32Array; taken: Uint8Array }
let sheet: Sheet | undefined;

function sheetOf(width: number, height: number): Sheet {
  if (sheet === undefined || sheet.image.width !== width || sheet.image.height !== height) {
    const canvas = document.createElement("canvas"), image = new ImageData(width, height);
    canvas.width = width;
    canvas.height = height;
    sheet = { canvas, image, pixels: new Uint32Array(image.data.buffer), taken: new Uint8Array(width * height) };
  }
  sheet.pixels.fill(0);
  sheet.taken.fill(0);
  return sheet;
}

function stampOf(role: Role, size: number): Dot[] {
  const key = `${role} ${size}`;
  let stamp = stamps.get(key);
  if (stamp !== undefined) return stamp;
  const reach = Math.ceil(2.4 * size) + 1, side = 2 * reach + 1;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const ctx = canvas.getContext("2d", { willReadFrequently: true })!;
  shape(ctx, role, reach + 0.5, reach + 0.5, size);
  ctx.lineWidth = size * 0.6;
  if (isOutline(role)) ctx.stroke();
  else ctx.fill();
  const { data } = ctx.getImageData(0, 0, side, side);
  stamp = [];
  for (let i = 0; i < side * side; ++i) if (data[4 * i + 3]! > 0) stamp.push({ dx: (i % side) - reach, dy: Math.floor(i / side) - reach, alpha: data[4 * i + 3]! });
  stamps.set(key, stamp);
  return stamp;
}

const isOutline = (role: Role) => role === "failed" || role === "infeasible" || role === "best" || role === "recommended" || role === "pruned" || role === "open";

/** What a pointer or the keyboard has found. */
export interface Found {
  layer: Layer;
  index: number;
  trial: number;
}

export interface Options {
  /** Called when somebody chooses a mark of a trial. */
  onTrial?: (trial: number) => void;
  height?: number;
}

/** One panel in a canvas. It draws again when its element changes its size. */
export class PanelView {
  private plot: uPlot | null = null;
  private panel: Panel;
  private readonly tip: HTMLElement;
  private readonly observer: ResizeObserver;
  private found: Found | null = null;
  private walk: { layer: Layer; order: number[] } | null = null; // The marks of a layer from left to right, once somebody walks.

  constructor(private readonly element: HTMLElement, panel: Panel, private readonly options: Options) {
    this.panel = this.complete(panel);
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    element.append(this.tip);
    element.tabIndex = 0;
    element.addEventListener("keydown", this.onKey);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(element);
    this.build();
  }

  /** Shows other numbers in the same place. */
  update(panel: Panel): void {
    const before = this.panel;
    this.panel = this.complete(panel);
    const same = (a: Axis, b: Axis) => a.log === b.log && JSON.stringify(a.ticks) === JSON.stringify(b.ticks) && a.label === b.label;
    if (this.plot === null || !same(before.x, this.panel.x) || !same(before.y, this.panel.y)) {
      this.build();
    } else {
      this.plot.setData(this.frame());
    }
  }

  redraw(): void {
    this.build();
  }

  destroy(): void {
    this.observer.disconnect();
    this.plot?.destroy();
    this.plot = null;
    this.tip.remove();
    this.element.removeEventListener("keydown", this.onKey);
  }

  private complete(panel: Panel): Panel {
    const all = (pick: (layer: Layer) => (Numbers | undefined)[]) => panel.layers.flatMap(pick);
    const texts = (axis: Axis): Axis => ({ ...axis, label: visible(axis.label), ...(axis.ticks ? { ticks: axis.ticks.map((t) => ({ ...t, text: visible(t.text) })) } : {}) });
    return easedPanel({
      ...panel,
      ...(panel.notes ? { notes: panel.notes.map((n) => ({ ...n, text: visible(n.text) })) } : {}),
      x: withEnds(texts(panel.x), all((l) => [l.x, l.x2])),
      y: withEnds(texts(panel.y), all((l) => [l.y, l.y2])),
      ...(panel.colour ? { colour: withEnds(panel.colour, all((l) => [l.colour])) } : {}),
    });
  }

  // uPlot gets the corners of the frame as its data.
  private frame(): uPlot.AlignedData {
    return [[this.panel.x.min!, this.panel.x.max!], [this.panel.y.min!, this.panel.y.max!]];
  }

  // Names that lean to the left below the frame need room there, the first most.
  private roomLeft(): number {
    const { ticks, min, max } = this.panel.x, width = this.size().width, beside = this.panel.y.ticks === undefined ? 56 : 60;
    const words = Math.max(...(ticks ?? []).map((t) => t.text.length), 0);
    if (ticks === undefined || (words + 1) * ticks.length * CHARACTER <= width - 80) return 0;
    const first = ticks[0]!, at = ((first.at - min!) / (max! - min!)) * (width - 80);
    return Math.min(0.3 * width, Math.max(0, Math.min([...first.text].length, 18) * 5.4 + 8 - beside - at));
  }

  private isFar(source: "x" | "y"): boolean {
    const { log, min, max } = this.panel[source], span = max! - min!;
    return log !== true && (span > 1e14 || span < 1e-13);
  }

  private size(): { width: number; height: number } {
    return { width: Math.max(160, this.element.clientWidth), height: this.options.height ?? 300 };
  }

  private resize(): void {
    const size = this.size();
    if (this.plot !== null && (this.plot.width !== size.width || this.plot.height !== size.height)) this.plot.setSize(size);
  }

  private build(): void {
    this.plot?.destroy();
    const theme = themeOf(this.element);
    const font = "12px system-ui, sans-serif";
    const axis = (source: "x" | "y"): uPlot.Axis => {
      const ticks = this.panel[source].ticks;
      // Names get up to two fifths of the width beside the frame; below it they lean where they would overlap.
      const width = this.size().width, words = Math.max(...(ticks ?? []).map((t) => t.text.length), 0);
      const leans = source === "x" && ticks !== undefined && (words + 1) * ticks.length * CHARACTER > width - 80;
      const room = source === "y" ? Math.max(8, Math.floor((0.4 * width - 28) / 7.5)) : 18;
      const every = Math.max(1, Math.ceil(leans ? (ticks.length * 16) / Math.max(16, width - 80) : source === "y" ? ((ticks?.length ?? 0) * LINE) / (this.size().height - 50) : 1));
      const texts = distinct((ticks ?? []).map((t) => t.text), room);
      const cut = (k: number) => (k % every === 0 ? texts[k]! : "");
      const longest = Math.max(...texts.map((text) => text.length), 0);
      return {
        label: shortened(this.panel[source].label, Math.max(12, Math.floor((source === "x" ? width - 80 : this.size().height - 60) / CHARACTER))),
        stroke: theme.ink,
        font,
        labelFont: font,
        labelSize: this.panel[source].label ? 22 : 0,
        ...(leans ? { rotate: 40 } : {}),
        size: source === "x" ? 34 + (leans ? 4.2 * Math.min(words, room) : 0) : Math.max(56, longest * 7.5 + 28),
        grid: { stroke: theme.faint, width: 1 },
        ticks: { stroke: theme.faint, width: 1 },
        ...(this.panel[source].whole ? { incrs: WHOLE } : {}),
        ...(ticks
          ? {
              splits: () => ticks.map((t) => t.at),
              values: () => ticks.map((_, k) => cut(k)),
              filter: (_: uPlot, splits: number[]) => splits,
            }
          : {
              values: (_: uPlot, splits: (number | null)[]) => splits.map((v) => (v === null ? "" : short(v))),
              // uPlot knows distances of ticks from 1e-16 to 1e15, and draws none where it has no distance.
              ...(this.isFar(source) ? { incrs: (_: uPlot, __: number, low: number, high: number) => [Math.max(5, high - low)], splits: (_: uPlot, __: number, low: number, high: number) => linearTicks(low, high, source === "x" ? (width - 80) / 70 : this.size().height / 44), filter: (_: uPlot, splits: number[]) => splits } : {}),
              ...(this.panel[source].log
                ? { splits: (_: uPlot, __: number, low: number, high: number) => logTicks(low, high, source === "x" ? (width - 80) / 60 : this.size().height / 36), filter: (_: uPlot, splits: number[]) => splits }
                : {}),
            }),
      };
    };
    const scale = (source: "x" | "y"): uPlot.Scale => ({
      time: false,
      distr: this.panel[source].log ? 3 : 1,
      // Zooming sets other ends; without it they are those of the axis.
      range: (u, low, high) => {
        const own = this.panel[source];
        const [a, b] = source === "x" ? [u.data[0]?.[0], u.data[0]?.[1]] : [u.data[1]?.[0], u.data[1]?.[1]];
        return low === a && high === b ? [own.min!, own.max!] : [low, high];
      },
    });
    this.plot = new uPlot(
      {
        ...this.size(),
        legend: { show: false },
        padding: [10, 24, 0, this.roomLeft()],
        cursor: { points: { show: false }, drag: { x: true, y: true, uni: 24 } },
        scales: { x: scale("x"), y: scale("y") },
        axes: [axis("x"), axis("y")],
        series: [{}, { show: true, paths: () => null, points: { show: false } }],
        hooks: {
          drawAxes: [(u) => this.draw(u, themeOf(this.element))],
          setCursor: [(u) => this.follow(u)],
        },
      },
      this.frame(),
      this.element,
    );
    this.plot.over.addEventListener("click", () => this.choose());
  }

  // As u.valToPos(value, source, true), for many numbers; with `css`, as u.valToPos(value, source).
  private placer(u: uPlot, source: "x" | "y", css = false): (value: number) => number {
    const scale = u.scales[source]!, log = this.panel[source].log === true;
    const low = log ? Math.log(scale.min!) : scale.min!, high = log ? Math.log(scale.max!) : scale.max!;
    const { left, top, width, height } = css ? { left: 0, top: 0, width: u.bbox.width / devicePixelRatio, height: u.bbox.height / devicePixelRatio } : u.bbox;
    const share = (value: number) => ((log ? Math.log(value) : value) - low) / (high - low);
    return source === "x" ? (value) => left + width * share(value) : (value) => top + height * (1 - share(value));
  }

  private draw(u: uPlot, theme: Theme): void {
    const ctx = u.ctx;
    const ratio = devicePixelRatio;
    const clip = (beside: number) => {
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left - beside, u.bbox.top - beside, u.bbox.width + 2 * beside, u.bbox.height + 2 * beside);
      ctx.clip();
    };
    for (const layer of this.panel.layers) {
      clip(layer.mark === "points" ? BESIDE * ratio : 0);
      this.drawLayer(u, ctx, layer, theme);
      ctx.restore();
    }
    clip(0);
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.fillStyle = theme.ink;
    ctx.textAlign = "left";
    for (const note of this.panel.notes ?? []) {
      // Beside the line, on the side where there is room.
      const at = u.valToPos(note.x, "x", true), room = u.bbox.left + u.bbox.width - at, wide = ctx.measureText(note.text).width;
      ctx.fillText(note.text, wide + 4 * ratio > room ? at - wide - 4 * ratio : at + 4 * ratio, u.valToPos(note.y, "y", true) + (note.above ? -4 : 13) * ratio);
    }
    if (this.panel.empty) {
      ctx.textAlign = "center";
      ctx.fillText(this.panel.empty, u.bbox.left + u.bbox.width / 2, u.bbox.top + u.bbox.height / 2);
    }
    ctx.restore();
  }

  private colourOf(layer: Layer, theme: Theme): string {
    if (layer.series !== undefined) return SERIES[layer.series % SERIES.length]![theme.dark ? 1 : 0];
    return layer.shade === undefined ? COLOURS[layer.role][theme.dark ? 1 : 0] : shaded(layer.shade, theme);
  }

  private colourAt(layer: Layer, i: number, theme: Theme): string {
    const share = place(this.panel.colour!, number(layer.colour, i));
    return Number.isFinite(share) ? shaded(this.panel.dark_low ? 1 - share : share, theme) : theme.faint;
  }

  private drawLayer(u: uPlot, ctx: CanvasRenderingContext2D, layer: Layer, theme: Theme): void {
    const ratio = devicePixelRatio;
    const across = this.placer(u, "x"), up = this.placer(u, "y");
    const px = (values: Numbers | undefined, i: number) => across(number(values, i));
    const py = (values: Numbers | undefined, i: number) => up(number(values, i));
    const colours = layer.colour !== undefined && this.panel.colour !== undefined;
    ctx.strokeStyle = ctx.fillStyle = this.colourOf(layer, theme);
    ctx.lineWidth = (layer.role === "incumbent" || layer.role === "best" || layer.role === "other" || layer.series !== undefined ? 2.2 : layer.role === "shaded" || (layer.role === "pruned" && layer.mark === "line") ? 0.9 : 1.6) * ratio;
    ctx.setLineDash(layer.series !== undefined ? SERIES[layer.series % SERIES.length]![2].map((d) => d * ratio) : layer.role === "reference" ? [5 * ratio, 4 * ratio] : layer.role === "infeasible" ? [2 * ratio, 3 * ratio] : layer.role === "pruned" ? [7 * ratio, 2 * ratio, 1.5 * ratio, 2 * ratio] : []);
    ctx.globalAlpha = layer.series === undefined && layer.role === "shaded" && layer.mark === "line" ? 0.7 : 1;
    if (layer.mark === "points") this.drawPoints(u, ctx, layer, theme);
    if (layer.mark === "line" || layer.mark === "steps") {
      ctx.beginPath();
      let open = false, last = NaN;
      for (let i = 0; i < layer.x.length; ++i) {
        const x = px(layer.x, i), y = py(layer.y, i);
        if (!Number.isFinite(x) || !Number.isFinite(y)) {
          open = false;
          continue;
        }
        if (!open) ctx.moveTo(x, y);
        else if (layer.mark === "line") ctx.lineTo(x, y);
        else {
          ctx.lineTo(x, last);
          ctx.lineTo(x, y);
        }
        open = true;
        last = y;
      }
      ctx.stroke();
    }
    if (layer.mark === "band") {
      ctx.globalAlpha = 0.15;
      ctx.beginPath();
      for (let i = 0; i < layer.x.length; ++i) ctx.lineTo(px(layer.x, i), py(layer.y, i));
      for (let i = layer.x.length - 1; i >= 0; --i) ctx.lineTo(px(layer.x, i), py(layer.y2, i));
      ctx.fill();
    }
    if (layer.mark === "segments" || layer.mark === "whiskers") {
      ctx.beginPath();
      for (let i = 0; i < layer.x.length; ++i) {
        const y = py(layer.y, i), y2 = layer.mark === "whiskers" ? y : py(layer.y2, i);
        const x = px(layer.x, i), x2 = px(layer.x2, i);
        ctx.moveTo(x, y);
        ctx.lineTo(x2, y2);
        if (layer.mark === "whiskers") {
          for (const end of [x, x2]) {
            ctx.moveTo(end, y - 4 * ratio);
            ctx.lineTo(end, y + 4 * ratio);
          }
        }
      }
      if (layer.mark === "whiskers") ctx.setLineDash([]);
      if (layer.mark === "whiskers" && layer.x.length > 20) ctx.globalAlpha = 0.45; // Many lie over each other.
      ctx.stroke();
    }
    if (layer.mark === "boxes") {
      ctx.globalAlpha = colours ? 1 : 0.75;
      for (let i = 0; i < layer.x.length; ++i) {
        if (colours) ctx.fillStyle = this.colourAt(layer, i, theme);
        const x = px(layer.x, i), y = py(layer.y, i), x2 = px(layer.x2, i), y2 = py(layer.y2, i);
        // Neighbours overlap by a pixel's half, so that no light shines through between them.
        ctx.fillRect(Math.min(x, x2), Math.min(y, y2), Math.max(ratio, Math.abs(x2 - x) + (colours ? 0.5 : 0)), Math.abs(y2 - y) + (colours ? 0.5 : 0));
      }
    }
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
  }

  private drawPoints(u: uPlot, ctx: CanvasRenderingContext2D, layer: Layer, theme: Theme): void {
    if (layer.x.length > MANY) return this.stampPoints(u, ctx, layer, theme);
    const ratio = devicePixelRatio, size = 2.6 * ratio;
    const colours = layer.colour !== undefined && this.panel.colour !== undefined;
    const across = this.placer(u, "x"), up = this.placer(u, "y");
    ctx.beginPath();
    for (let i = 0; i < layer.x.length; ++i) {
      if (colours) {
        ctx.fillStyle = this.colourAt(layer, i, theme);
        ctx.beginPath();
      }
      shape(ctx, layer.role, across(number(layer.x, i)), up(number(layer.y, i)), size);
      if (colours) ctx.fill();
    }
    if (colours) return;
    ctx.lineWidth = 1.4 * ratio;
    if (layer.halo) {
      ctx.strokeStyle = theme.paper;
      ctx.lineWidth = (isOutline(layer.role) ? 5 : 3) * ratio;
      ctx.stroke();
      ctx.strokeStyle = this.colourOf(layer, theme);
      ctx.lineWidth = 1.6 * ratio;
    }
    if (isOutline(layer.role)) ctx.stroke();
    else ctx.fill();
  }

  // Many points are stamped into an image, which is drawn as a whole: a canvas needs microseconds for each shape. Each pixel is
  // the middle of one point at most, the last one, since those that come later are on top.
  private stampPoints(u: uPlot, ctx: CanvasRenderingContext2D, layer: Layer, theme: Theme): void {
    const colours = layer.colour !== undefined && this.panel.colour !== undefined;
    const width = Math.ceil(u.bbox.width) + 1, height = Math.ceil(u.bbox.height) + 1;
    const across = this.placer(u, "x"), up = this.placer(u, "y");
    const stamp = stampOf(layer.role, 1.6 * devicePixelRatio);
    const { canvas, image, pixels, taken } = sheetOf(width, height), alphas = image.data;
    const one = packed(this.colourOf(layer, theme));
    const shades = colours ? Array.from({ length: 64 }, (_, k) => packed(shaded(k / 63, theme))) : [];
    for (let i = layer.x.length - 1; i >= 0; --i) {
      const column = Math.round(across(number(layer.x, i)) - u.bbox.left), row = Math.round(up(number(layer.y, i)) - u.bbox.top);
      if (!(column >= 0 && row >= 0 && column < width && row < height) || taken[row * width + column] === 1) continue;
      taken[row * width + column] = 1;
      let colour = one;
      if (colours) {
        const share = place(this.panel.colour!, number(layer.colour, i));
        colour = Number.isFinite(share) ? shades[Math.round(63 * Math.min(1, Math.max(0, this.panel.dark_low ? 1 - share : share)))]! : packed(theme.faint);
      }
      for (const { dx, dy, alpha } of stamp) {
        const x = column + dx, y = row + dy, at = y * width + x;
        if (x < 0 || y < 0 || x >= width || y >= height || alphas[4 * at + 3]! >= alpha) continue;
        pixels[at] = colour;
        alphas[4 * at + 3] = alpha;
      }
    }
    canvas.getContext("2d")!.putImageData(image, 0, 0);
    ctx.drawImage(canvas, u.bbox.left, u.bbox.top);
  }

  private candidates(): Layer[] {
    return this.panel.layers.filter((l) => l.trials !== undefined && l.mark !== "segments" && l.role !== "incumbent");
  }

  private follow(u: uPlot): void {
    const left = u.cursor.left ?? -1, top = u.cursor.top ?? -1;
    let best = NEAR * NEAR, found: Found | null = null;
    if (left >= 0) {
      const across = this.placer(u, "x", true), up = this.placer(u, "y", true);
      const at = u.posToVal(left, "x"), level = u.posToVal(top, "y");
      for (const layer of this.candidates()) {
        for (let i = 0; i < layer.x.length; ++i) {
          let x = number(layer.x, i);
          let y = number(layer.y, i);
          if (layer.mark === "boxes") {
            x = Math.min(Math.max(at, x), number(layer.x2, i));
            y = Math.min(Math.max(level, y), number(layer.y2, i));
          }
          const dx = across(x) - left, dy = up(y) - top;
          const distance = dx * dx + dy * dy;
          if (distance < best) {
            best = distance;
            found = { layer, index: i, trial: layer.trials![i]! };
          }
        }
      }
    }
    this.show(found);
  }

  private show(found: Found | null): void {
    this.found = found;
    const u = this.plot;
    this.tip.hidden = found === null || u === null;
    if (found === null || u === null) return;
    const { layer, index, trial } = found;
    const of = (axis: Axis, value: number) => `${axis.label || "at"} ${this.words(axis, value)}`;
    const text = [...new Set([`trial ${trial}`, of(this.panel.x, number(layer.x, index)), ...(layer.role === "failed" || layer.role === "outside" ? [] : [of(this.panel.y, number(layer.y, index))]), ...(layer.name ? [layer.name] : [])])];
    this.tip.textContent = visible(text.join(" · "));
    const x = u.valToPos(number(layer.x, index), "x") + u.over.offsetLeft;
    const y = u.valToPos(number(layer.y, index), "y") + u.over.offsetTop;
    this.tip.style.left = `${Math.min(x + 10, this.element.clientWidth - this.tip.offsetWidth - 4)}px`;
    this.tip.style.top = `${Math.max(0, y - 30)}px`;
  }

  private words(axis: Axis, value: number): string {
    const tick = axis.ticks?.find((t) => t.at === value || t.at === Math.round(value));
    return tick ? tick.text : short(value);
  }

  private choose(): void {
    if (this.found !== null) this.options.onTrial?.(this.found.trial);
  }

  // Arrows walk from trial to trial in order of x; Enter opens the one that is shown.
  private readonly onKey = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (event.key === "Enter") this.choose();
    if (event.key === "Escape") this.show(null);
    if (step === 0) return;
    const layers = this.candidates();
    const layer = this.found?.layer ?? layers[0];
    if (layer === undefined || layer.x.length === 0) return;
    event.preventDefault();
    if (this.walk?.layer !== layer) this.walk = { layer, order: Array.from(layer.x, (_, i) => i).filter((i) => Number.isFinite(number(layer.x, i))).sort((a, b) => number(layer.x, a) - number(layer.x, b)) };
    const order = this.walk.order;
    const at = this.found === null ? (step > 0 ? -1 : order.length) : order.indexOf(this.found.index);
    const index = order[Math.min(order.length - 1, Math.max(0, at + step))]!;
    this.show({ layer, index, trial: layer.trials![index]! });
  };
}

/** Returns a text with at most `most` characters: of a longer one its beginning and end, by which labels differ. */
export function shortened(text: string, most: number): string {
  const characters = [...text];
  if (characters.length <= most) return text;
  const head = Math.floor(most / 2);
  return characters.slice(0, head).join("") + "…" + characters.slice(characters.length - (most - head - 1)).join("");
}

/** Returns texts with at most `most` characters: those that are longer without a beginning that all of them share. */
export function distinct(texts: string[], most: number): string[] {
  const longer = texts.map((text) => [...text]).filter((text) => text.length > most);
  let same = 0;
  while (longer.length > 1 && longer.every((text) => text.length > same + 1 && text[same] === longer[0]![same])) ++same;
  return texts.map((text) => {
    const characters = [...text];
    return shortened(same >= 4 && characters.length > most ? "…" + characters.slice(same).join("") : text, most);
  });
}

/** Returns a number with at most five digits that matter. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(5)));
}

/** Returns the lines of a legend: what each named layer of a panel looks like. */
export interface LegendSign { name: string; role: Role; mark: Mark; shade?: number; series?: number }
export function legendOf(panel: Panel): LegendSign[] {
  const seen = new Set<string>();
  return panel.layers.filter((l) => l.name !== "" && !seen.has(l.name) && seen.add(l.name)).map((l) => ({ name: visible(l.name), role: l.role, mark: l.mark, ...(l.shade === undefined ? {} : { shade: l.shade }), ...(l.series === undefined ? {} : { series: l.series }) }));
}

/** Draws what a legend shows beside a name. */
export function drawSign(canvas: HTMLCanvasElement, sign: Omit<LegendSign, "name">): void {
  const ratio = devicePixelRatio;
  canvas.width = 22 * ratio;
  canvas.height = 12 * ratio;
  const ctx = canvas.getContext("2d")!;
  const theme = themeOf(canvas);
  const series = sign.series === undefined ? undefined : SERIES[sign.series % SERIES.length]!;
  ctx.strokeStyle = ctx.fillStyle = series !== undefined ? series[theme.dark ? 1 : 0] : sign.shade === undefined ? COLOURS[sign.role][theme.dark ? 1 : 0] : shaded(sign.shade, theme);
  ctx.lineWidth = 2 * ratio;
  const middle = 6 * ratio;
  ctx.beginPath();
  if (sign.mark === "points") {
    shape(ctx, sign.role, 11 * ratio, middle, (sign.role === "best" || sign.role === "recommended" ? 2.2 : 3) * ratio);
    if (isOutline(sign.role)) ctx.stroke();
    else ctx.fill();
  } else if (sign.mark === "band" || sign.mark === "boxes") {
    ctx.globalAlpha = sign.mark === "band" ? 0.25 : 0.75;
    ctx.fillRect(2 * ratio, 2 * ratio, 18 * ratio, 8 * ratio);
  } else {
    if (series !== undefined) ctx.setLineDash(series[2].map((d) => d * ratio));
    else if (sign.role === "reference" && sign.mark !== "whiskers") ctx.setLineDash([5 * ratio, 4 * ratio]);
    else if (sign.role === "infeasible") ctx.setLineDash([2 * ratio, 3 * ratio]);
    else if (sign.role === "pruned") ctx.setLineDash([7 * ratio, 2 * ratio, 1.5 * ratio, 2 * ratio]);
    ctx.moveTo(0, middle);
    ctx.lineTo(22 * ratio, middle);
    ctx.stroke();
  }
}

/** Draws the colours of a scale, the stronger end on the right. */
export function drawScale(canvas: HTMLCanvasElement): void {
  const theme = themeOf(canvas), ratio = devicePixelRatio, width = 120 * ratio;
  canvas.width = width;
  canvas.height = 12 * ratio;
  const ctx = canvas.getContext("2d")!;
  for (let x = 0; x < width; ++x) {
    ctx.fillStyle = shaded(x / (width - 1), theme);
    ctx.fillRect(x, 0, 1, canvas.height);
  }
}

/** Returns the values at the pale and at the strong end of a panel's colours; null: no layer has colours by value. */
export function scaleOf(panel: Panel): [number, number] | null {
  if (panel.colour?.min === undefined || panel.colour.max === undefined || !panel.layers.some((l) => l.colour !== undefined)) return null;
  // Where all colours are of one value, the axis reaches beyond it.
  let low = Infinity, high = -Infinity;
  for (const { colour } of panel.layers) {
    for (let i = 0; colour !== undefined && i < colour.length; ++i) {
      const value = number(colour, i);
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low === high) return [low, high];
  return panel.dark_low ? [panel.colour.max, panel.colour.min] : [panel.colour.min, panel.colour.max];
}

/** Returns the numbers of a panel as rows of texts, the first of which are names; at most `most` rows. */
export function rowsOf(panel: Panel, most: number): string[][] {
  const rows = [["", panel.x.label || "x", panel.y.label || "y", "trial"]];
  const words = (axis: Axis, value: number) => axis.ticks?.find((t) => t.at === value)?.text ?? (Number.isFinite(value) ? String(Number(value.toPrecision(8))) : "");
  for (const layer of panel.layers) {
    for (let i = 0; i < layer.x.length && rows.length <= most; ++i) {
      const middle = layer.mark === "boxes" ? (number(layer.y, i) + number(layer.y2, i)) / 2 : number(layer.y, i);
      const x = layer.mark === "boxes" && number(layer.x, i) === 0 ? number(layer.x2, i) : number(layer.x, i);
      if (!Number.isFinite(x) && !Number.isFinite(middle)) continue;
      // Boxes that share the row of a name are above or below its middle.
      const row = layer.mark === "boxes" ? panel.y.ticks?.find((t) => t.at === Math.round(middle))?.text : undefined;
      rows.push([layer.name, words(panel.x, x), row ?? words(panel.y, middle), layer.trials ? String(layer.trials[i]) : ""]);
    }
  }
  return rows;
}
