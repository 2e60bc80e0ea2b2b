// Parts that pages share.
import type { ComponentChildren, JSX } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { CallError, setToken } from "./api";
import { drawScale, drawSign, legendOf, PanelView, rowsOf, scaleOf, short, type Figure, type Panel } from "./figure";
import { visible } from "./visible";

/** Where the page is: its parts of the path and its parameters. All of it is in the address, so that it can be shared. */
export interface Place { parts: string[]; query: URLSearchParams }

export function parsePlace(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?");
  try {
    return { parts: path.split("/").filter((p) => p !== "").map(decodeURIComponent), query: new URLSearchParams(query) };
  } catch { // A percent sign without two digits.
    return { parts: ["…", path], query: new URLSearchParams(query) };
  }
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => parsePlace(location.hash));
  useEffect(() => {
    const on = () => setPlace(parsePlace(location.hash));
    addEventListener("hashchange", on);
    return () => removeEventListener("hashchange", on);
  }, []);
  return place;
}

export function setQuery(place: Place, name: string, value: string): void {
  location.replace(withQuery(place, name, value));
}

/** Returns the address of a place with another value of a parameter. */
export function withQuery(place: Place, name: string, value: string): string {
  const query = new URLSearchParams(place.query);
  if (value === "") query.delete(name);
  else query.set(name, value);
  const text = query.toString();
  return `#/${place.parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const href = (...parts: (string | number)[]): string => `#/${parts.map((p) => encodeURIComponent(String(p))).join("/")}`;
/** The address of a study's page: project and id. */
export const studyHref = (name: string, ...more: (string | number)[]): string => {
  const [, project = "", , id = ""] = name.split("/");
  return href("studies", project, id, ...more);
};

export function useTitle(title: string): void {
  useEffect(() => { document.title = `${visible(title)} – Luthier`; }, [title]);
}

/** Asks for a token, which is kept for this tab alone. */
export function AskToken(): JSX.Element {
  const [text, setText] = useState("");
  return (
    <form class="form" onSubmit={(event) => { event.preventDefault(); setToken(text); location.reload(); }}>
      <label>Token <input type="password" autocomplete="off" value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
      <button type="submit">Use it</button>
    </form>
  );
}

const WHY: Record<string, string> = {
  NO_TOKEN: "This page needs a token: that of luthier ui, of an admin, or DIR/admin.token.",
  BAD_TOKEN: "The coordinator does not know this token. It may be that of another one, or of one that ended since.",
  EXPIRED: "Your token has expired.",
  REVOKED: "Your token was revoked.",
};

export function Failure({ error, again }: { error: CallError; again?: () => void }): JSX.Element {
  const unknown = error.code === "unauthenticated";
  return (
    <div class="failure" role="alert">
      <p>{unknown ? WHY[error.details.reason ?? ""] ?? error.message : error.message}</p>
      {unknown && <AskToken />}
      {again && !unknown && <button type="button" onClick={again}>Try again</button>}
    </div>
  );
}

export function State({ name }: { name: string }): JSX.Element {
  return <span class={`state ${name.toLowerCase()}`}>{name || "DAMAGED"}</span>;
}

/** A button that makes a change. What went wrong stands beside it. */
export function Action({ label, run, confirm }: { label: string; run: () => Promise<unknown>; confirm?: string }): JSX.Element {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const [asked, setAsked] = useState(false);
  const act = useCallback(async () => {
    if (confirm && !asked) {
      setAsked(true);
      return;
    }
    setBusy(true);
    setError(null);
    setAsked(false);
    try {
      await run();
    } catch (failure) {
      setError((failure as Error).message);
    }
    setBusy(false);
  }, [run, confirm, asked]);
  return (
    <span class="action">
      <button type="button" disabled={busy} onClick={act}>{asked ? confirm : label}</button>
      {asked && <button type="button" onClick={() => setAsked(false)}>No</button>}
      {error && <span role="alert" class="bad"> {error}</span>}
    </span>
  );
}

/** Calls `load` at once and again every `every` milliseconds while the page is seen; 0: only once. */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, inputs: unknown[], every = 0): { value: T | null; error: CallError | null; again: () => void } {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<CallError | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const look = async () => {
      try {
        if (!document.hidden) {
          setValue(await load(stop.signal));
          setError(null);
        }
      } catch (failure) {
        if (stop.signal.aborted) return;
        setError(failure instanceof CallError ? failure : new CallError("unknown", String(failure)));
        if (!(failure instanceof CallError) || !failure.passing) return;
        timer = window.setTimeout(look, Math.max(every, 2000));
        return;
      }
      if (every > 0 && !stop.signal.aborted) timer = window.setTimeout(look, every);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [...inputs, turn]);
  return { value, error, again: () => setTurn((t) => t + 1) };
}

function Sign({ sign }: { sign: ReturnType<typeof legendOf>[number] }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => { if (canvas.current) drawSign(canvas.current, sign); });
  return <li><canvas ref={canvas} aria-hidden="true" />{sign.name}</li>;
}

/** What the colours of a panel mean. */
function Scale({ panel }: { panel: Panel }): JSX.Element | null {
  const canvas = useRef<HTMLCanvasElement>(null), ends = scaleOf(panel);
  useEffect(() => { if (canvas.current) drawScale(canvas.current); });
  if (ends === null) return null;
  if (ends[0] === ends[1]) return <li>{panel.colour!.label} {short(ends[0])}</li>;
  return <li>{panel.colour!.label} {short(ends[0])} <canvas ref={canvas} class="scale" aria-hidden="true" /> {short(ends[1])}</li>;
}

/** What the signs of panels mean, each named once. */
export function Legend({ panels }: { panels: Panel[] }): JSX.Element {
  const signs = new Map(panels.flatMap(legendOf).map((sign) => [sign.name, sign]));
  return <ul class="legend">{[...signs.values()].map((sign) => <Sign key={sign.name} sign={sign} />)}{panels.length === 1 && <Scale panel={panels[0]!} />}</ul>;
}

/** A figure of one panel. `brief`: its legend and caption are elsewhere. */
export function Plot({ figure, height, onTrial, brief }: { figure: Figure; height?: number; onTrial?: (trial: number) => void; brief?: boolean }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<PanelView | null>(null);
  const choose = useRef(onTrial);
  choose.current = onTrial;
  const [seen, setSeen] = useState(false);
  const [table, setTable] = useState(false);
  const panel = figure.panels[0]!;
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => { if (entries.some((e) => e.isIntersecting)) setSeen(true); }, { rootMargin: "100px" });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (!seen) return;
    if (view.current === null) view.current = new PanelView(box.current!, panel, { height: height ?? 300, onTrial: (t) => choose.current?.(t) });
    else view.current.update(panel);
  }, [seen, panel]);
  useEffect(() => {
    const redraw = () => view.current?.redraw();
    addEventListener("luthier-theme", redraw);
    return () => {
      removeEventListener("luthier-theme", redraw);
      view.current?.destroy();
      view.current = null;
    };
  }, []);
  return (
    <figure>
      <div ref={box} class="plot" role="group" aria-label={`${figure.title}. ${figure.caption} Arrow keys go from trial to trial, Enter opens one.`} style={{ minHeight: height ?? 300 }} />
      {!brief && <Legend panels={[panel]} />}
      <figcaption>
        {!brief && `${figure.caption} `}
        <button type="button" class="link" aria-expanded={table} onClick={() => setTable(!table)}>as a table</button>
      </figcaption>
      {table && (
        <div class="scroll" tabIndex={0} role="region" aria-label={`${figure.title} as a table`}>
          <table>{rowsOf(panel, 300).map((row, i) => <tr key={i}>{row.map((text, k) => (i === 0 ? <th key={k} scope="col">{text || "what"}</th> : <td key={k}>{text}</td>))}</tr>)}</table>
        </div>
      )}
    </figure>
  );
}

/** Returns a place for an element, and whether it is in view, or nearly so. */
export function useNear(): [{ current: HTMLDivElement | null }, boolean] {
  const box = useRef<HTMLDivElement>(null);
  const [near, setNear] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => setNear(entries[entries.length - 1]!.isIntersecting), { rootMargin: "200px" });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  return [box, near];
}

/** A figure that is made when it comes near to where one looks, and anew only while it is there. */
export function LazyPlot({ make, inputs, height, onTrial, brief, onMade }: { make: () => Figure; inputs: unknown[]; height: number; onTrial?: (trial: number) => void; brief?: boolean; onMade?: (figure: Figure) => void }): JSX.Element {
  const [box, near] = useNear();
  const last = useRef<Figure | null>(null);
  const figure = useMemo(() => (near ? (last.current = make()) : last.current), [near, ...inputs]);
  useEffect(() => { if (figure !== null) onMade?.(figure); }, [figure]);
  return (
    <div ref={box}>
      {figure === null ? <div class="faint" style={{ minHeight: height }}>loading…</div> : <Plot figure={figure} height={height} brief={brief === true} {...(onTrial ? { onTrial } : {})} />}
    </div>
  );
}

/** Returns a number that rises when `version` does, at most every so many seconds. */
export function useTurn(version: number, seconds: number): number {
  const [turn, setTurn] = useState(0);
  const last = useRef(Date.now()), first = useRef(version);
  useEffect(() => {
    if (version === first.current) return;
    const timer = setTimeout(() => {
      last.current = Date.now();
      setTurn((t) => t + 1);
    }, Math.max(0, last.current + 1000 * seconds - Date.now()));
    return () => clearTimeout(timer);
  }, [version]);
  return turn;
}

/** The part of an address that names a section: "Who ran what, when" is who-ran-what-when. */
export const sectionId = (title: string): string => title.toLowerCase().replace(/[^a-z0-9]+/g, "-");

export function Section({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return <section id={`section-${sectionId(title)}`}><h2 tabIndex={-1}>{title}</h2>{children}</section>;
}

export function time(text: string | undefined): string {
  return text ? new Date(text).toLocaleString(undefined, { dateStyle: "short", timeStyle: "long" }) : "";
}

export function ago(text: string | undefined): string {
  if (!text) return "";
  const seconds = Math.max(0, (Date.now() - new Date(text).getTime()) / 1000);
  if (seconds < 100) return `${Math.round(seconds)} s ago`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}
