// The page of a coordinator.
import { Fragment, options, render, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Admin } from "./admin";
import { call, takeToken, type Json } from "./api";
import { Compare, ENDED } from "./compare";
import { Create } from "./create";
import { short } from "./figure";
import { Held, type HeldTrial } from "./held";
import { mainMetric, objectivesOf } from "./metrics";
import { ago, AskToken, Failure, href, setQuery, State, studyHref, useLoaded, usePlace, useTitle, type Place } from "./parts";
import type { Recommended } from "./recommended";
import { pausedWords, StudyPage } from "./study";
import { TrialPage } from "./trial";
import { visible, visibleAll } from "./visible";
import { waitsOf, workerCommand } from "./words";

const THEMES = ["auto", "light", "dark"];

function Theme(): JSX.Element {
  const [theme, setTheme] = useState(() => localStorage.getItem("luthier-theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem("luthier-theme", theme);
    dispatchEvent(new Event("luthier-theme"));
  }, [theme]);
  useEffect(() => {
    const on = () => dispatchEvent(new Event("luthier-theme"));
    const query = matchMedia("(prefers-color-scheme: dark)");
    query.addEventListener("change", on);
    return () => query.removeEventListener("change", on);
  }, []);
  return <label class="theme">Theme <select value={theme} onChange={(e) => setTheme(e.currentTarget.value)}>{THEMES.map((t) => <option key={t}>{t}</option>)}</select></label>;
}

const MOST_PROJECTS = 20; // Projects that are read together.

let known: Promise<string[]> | null = null;

/** Returns the projects whose studies the token may see. It is asked once for a page, since the audit notes each call of an admin. */
function projects(): Promise<string[]> {
  known ??= (async () => {
    const info = await call("WorkerService/GetServerInfo", {});
    const own = ((info["projects"] ?? []) as string[]).length > 0 ? (info["projects"] as string[]) : [String(info["project"] || "default")];
    if (!info["open"] && !((info["roles"] ?? []) as string[]).includes("admin")) return own;
    const all = await call("AdminService/ListProjects", {}).catch(() => ({ projects: [] }) as Json);
    return [...new Set([...own, ...((all["projects"] ?? []) as Json[]).map((p) => String(p["id"]))])];
  })();
  known.catch(() => { known = null; });
  return known;
}

interface Listed { projects: string[]; studies: Json[] }

/** Returns the studies of a project; "": of all that the token may see, or of its first one if these are many. */
async function allStudies(signal: AbortSignal, project: string): Promise<Listed> {
  const all = await projects(), out: Json[] = [];
  const read = project !== "" ? [project] : all.length > MOST_PROJECTS ? all.slice(0, 1) : all;
  for (const one of read) {
    let token = "";
    do {
      const page = await call("StudyService/ListStudies", { parent: `projects/${one}`, pageSize: 1000, pageToken: token }, signal);
      out.push(...((page["studies"] ?? []) as Json[]));
      token = String(page["nextPageToken"] ?? "");
    } while (token !== "");
  }
  return { projects: all, studies: out };
}

const MOST_ROWS = 500;
const MOST_COMPARED = 8;
const MOST_FRONTS = 30; // Studies of several objectives whose fronts are counted.
const PARTS: [string, string][] = [["complete", "complete"], ["pruned", "stopped early"], ["failed", "failed"], ["running", "running"], ["paused", "paused"]];

function Bar({ study }: { study: Json }): JSX.Element {
  const counts = study["trials"] ?? {};
  const most = Math.max(1, Number(study["spec"].budget?.maxTrials ?? 100));
  const words = PARTS.filter(([n]) => Number(counts[n] ?? 0) > 0).map(([n, w]) => `${counts[n]} ${w}`).join(", ");
  return (
    <span class="bar" role="img" aria-label={words || "no trials yet"} title={words}>
      {PARTS.map(([n]) => <span key={n} class={n} style={{ width: `${(100 * Math.min(most, Number(counts[n] ?? 0))) / most}%` }} />)}
    </span>
  );
}

/** How many trials no other one is better than, in a study of several objectives. */
function OnFront({ study }: { study: Json }): JSX.Element {
  const { value } = useLoaded((signal) => call("StudyService/GetStudy", { name: study["name"] }, signal), [study["name"], String(study["trials"]?.complete ?? 0)]);
  const front = ((value?.["front"] ?? []) as unknown[]).length;
  return <>{value === null ? "" : `${front}${value["frontOverflowed"] ? " and more" : ""} on the front`}</>;
}

const ended = (study: Json): number => ENDED.reduce((sum, n) => sum + Number(study["trials"]?.[n] ?? 0), 0);

/** The state of a study, and in a few words why it is not at work. */
function Standing({ study }: { study: Json }): JSX.Element {
  const state = String(study["state"] ?? ""), reason = String(study["stateReason"] ?? "");
  const waits = waitsOf(study), brief = state === "ACTIVE" ? waits?.brief ?? "" : reason;
  return <td class="standing" title={waits?.full ?? (state === "ACTIVE" ? undefined : reason || undefined)}><State name={state} />{brief && <span class="faint"> {brief}</span>}</td>;
}

const ORDERS: [string, string][] = [["", "name"], ["changed", "changed last"], ["state", "state"]];
const title = (study: Json): string => String(study["spec"]?.displayName || study["name"].split("/")[3]);
const before = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function Row({ study: s, project, chosen, choose, front }: { study: Json; project: boolean; chosen: string[]; choose: (name: string, on: boolean) => void; front: boolean }): JSX.Element {
  const name = String(s["name"]), id = name.split("/")[3]!, paused = Number(s["trials"]?.["paused"] ?? 0);
  return (
    <tr>
      <td><input type="checkbox" aria-label={`compare ${id}`} checked={chosen.includes(name)} disabled={chosen.length >= MOST_COMPARED && !chosen.includes(name)} onChange={(e) => choose(name, e.currentTarget.checked)} /></td>
      <td class="name"><a href={studyHref(name)}><bdi>{title(s)}</bdi></a>{s["spec"].displayName && <span class="faint"> {id}</span>}{project && <span class="faint"> in {name.split("/")[1]}</span>}</td>
      <td><Bar study={s} /> <span class="one">{ended(s)} of {s["spec"].budget?.maxTrials ?? 100}</span>{ENDED.slice(1).map((n) => Number(s["trials"]?.[n] ?? 0) > 0 && <span key={n} class="faint one"> {s["trials"][n]} {n === "pruned" ? "stopped early" : n}</span>)}{paused > 0 && <span class="faint one"> {paused} {pausedWords(s)}</span>}</td>
      <td class="number">{s["bestValue"] !== undefined ? <><span class="faint metric" title={mainMetric(s)}>{mainMetric(s)}</span> {short(Number(s["bestValue"]))}</> : front ? <OnFront study={s} /> : ""}</td>
      <Standing study={s} />
      <td class="one">{ago(s["updateTime"])}</td>
    </tr>
  );
}

function Studies({ place }: { place: Place }): JSX.Element {
  const project = place.query.get("project") ?? "";
  const { value, error, again } = useLoaded((signal) => allStudies(signal, project), [project], 2000);
  useTitle("Studies");
  const chosen = (place.query.get("chosen") ?? "").split(",").filter((n) => n !== "").slice(0, MOST_COMPARED);
  const choose = (name: string, on: boolean) => setQuery(place, "chosen", (on ? [...chosen, name] : chosen.filter((c) => c !== name)).join(","));
  const find = place.query.get("find") ?? "", state = place.query.get("state") ?? "", order = place.query.get("order") ?? "";
  if (error !== null && (value === null || !error.passing)) return <><Failure error={error} again={again} />{project && <p><a href={href("studies")}>All studies</a></p>}</>;
  if (value === null) return <p role="status">… loading</p>;
  const several = value.projects.length > 1, limited = project === "" && value.projects.length > MOST_PROJECTS;
  const shown = value.studies.filter((s) => (state === "" || s["state"] === state) && (find === "" || `${s["name"]} ${s["spec"].displayName ?? ""} ${Object.values(s["spec"].labels ?? {}).join(" ")}`.includes(find)));
  if (order === "changed") shown.sort((a, b) => before(String(b["updateTime"] ?? ""), String(a["updateTime"] ?? "")));
  if (order === "state") shown.sort((a, b) => before(String(a["state"] ?? ""), String(b["state"] ?? "")) || before(title(a), title(b)));
  let fronts = 0;
  return (
    <>
      <h1>Studies</h1>
      {error && <p class="away" role="status">Connection lost, trying again: {error.message}</p>}
      <p class="filters">
        {several && <label>Project <select value={project} onChange={(e) => setQuery(place, "project", e.currentTarget.value)}><option value="">{limited ? `${value.projects[0]} (choose another)` : "all"}</option>{value.projects.map((p) => <option key={p} value={p}>{p}</option>)}</select></label>}
        <label>State <select value={state} onChange={(e) => setQuery(place, "state", e.currentTarget.value)}><option value="">all</option>{["ACTIVE", "PAUSED", "STOPPED", "CANCELLED", "COMPLETED"].map((s) => <option key={s}>{s}</option>)}</select></label>
        <label>Find <input value={find} onInput={(e) => setQuery(place, "find", e.currentTarget.value)} /></label>
        <label>By <select value={order} onChange={(e) => setQuery(place, "order", e.currentTarget.value)}>{ORDERS.map(([key, words]) => <option key={key} value={key}>{words}</option>)}</select></label>
        <span role="status">{shown.length} {shown.length === 1 ? "study" : "studies"}</span>
        <a class="button" href={href("new")}>New study</a>
        {chosen.length > 1 && <a class="button" href={`${href("compare")}?studies=${chosen.map((c) => encodeURIComponent(c)).join(",")}`}>Compare {chosen.length}</a>}
      </p>
      {!several && value.projects[0] !== "default" && <p class="faint">Studies of project {value.projects[0]}.</p>}
      {value.studies.length === 0 ? <p>There is no study yet. <a href={href("new")}>State one here</a>, or <code>luthier study create -f study.yaml</code></p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Studies"><table class="studies">
          <thead><tr>{["", "study", "trials", "best", "state", "changed"].map((h) => (h ? <th key={h} scope="col">{h}</th> : <td key={h} />))}</tr></thead>
          <tbody>{shown.slice(0, MOST_ROWS).map((s) => {
            const front = s["bestValue"] === undefined && s["spec"].metrics !== undefined && objectivesOf(s).length > 1 && Number(s["trials"]?.complete ?? 0) > 0 && ++fronts <= MOST_FRONTS;
            return <Row key={s["name"]} study={s} project={several && project === ""} chosen={chosen} choose={choose} front={front} />;
          })}</tbody>
        </table>{shown.length > MOST_ROWS && <p>{shown.length - MOST_ROWS} more: search for them.</p>}</div>
      )}
    </>
  );
}

const MOST_AT_WORK = 20; // Studies whose running trials are looked up.
const MOST_HELD = 200; // Running trials of a study that are looked up.
const MOST_NAMED = 6; // Trials of a worker that are named.

/** The trials that workers hold, as far as a few studies tell. */
async function heldTrials(workers: Json[], studies: Json[], signal: AbortSignal): Promise<Held> {
  const held = new Held(workers);
  for (const study of studies.filter((s) => Number(s["trials"]?.running ?? 0) > 0).slice(0, MOST_AT_WORK)) {
    if (!held.misses) break;
    const parent = String(study["name"]);
    // A study that was deleted just now, or is damaged, tells nothing.
    const answer = await call("StudyService/ListTrials", { parent, pageSize: MOST_HELD, states: ["RUNNING"] }, signal).catch(() => ({}) as Json);
    held.add(parent, (answer["trials"] ?? []) as Json[]);
  }
  return held;
}

// What came of trials that were granted to a worker, as `luthier worker list` has it: with those that it holds they add up.
const OUTCOMES: [string, string][] = [["granted", "granted"], ["completed", "complete"], ["pruned", "stopped early"], ["paused", "paused"], ["failed", "failed"], ["released", "given back"], ["expired", "expired"], ["cancelled", "cancelled"]];

/** How many trials a worker holds, with links to them. */
function HeldCell({ worker, trials }: { worker: Json; trials: HeldTrial[] }): JSX.Element {
  const count = Number(worker["leases"] ?? 0), shown = trials.slice(0, Math.min(count, MOST_NAMED));
  return <td>{count}{shown.map(({ study, number }, i) => <span key={`${study} ${number}`}>{i === 0 ? ": " : ", "}<a class="one" href={studyHref(study, "trials", number)}>{study.split("/")[3]} {number}</a></span>)}{shown.length > 0 && shown.length < count && " …"}</td>;
}

function Workers(): JSX.Element {
  const { value, error, again } = useLoaded(async (signal) => {
    const [listed, { studies }] = await Promise.all([call("StudyService/ListWorkers", { pageSize: 1000 }, signal), allStudies(signal, "")]);
    const workers = (listed["workers"] ?? []) as Json[];
    return { workers, studies, held: await heldTrials(workers, studies, signal) };
  }, [], 2000);
  useTitle("Workers");
  if (error !== null && (value === null || !error.passing)) return <Failure error={error} again={again} />;
  if (value === null) return <p role="status">… loading</p>;
  const active = value.studies.filter((s) => s["state"] === "ACTIVE"), waits = active.map((s) => ({ s, why: waitsOf(s) }));
  const waiting = waits.filter(({ why }) => why?.cause), turns = waits.filter(({ why }) => why !== null && !why.cause);
  const pools = [...new Set(waiting.filter(({ why }) => / no worker of /.test(why!.full)).map(({ s }) => workerCommand(s, location.hostname)))];
  const link = (s: Json) => <a href={studyHref(s["name"])}>{s["name"].split("/")[3]}</a>;
  const workers = value.workers;
  return (
    <>
      <h1>Workers</h1>
      {error && <p class="away" role="status">Connection lost, trying again: {error.message}</p>}
      <h2>Studies that wait</h2>
      {waiting.length === 0 ? <p>{active.length === 0 ? "No study is active." : turns.length > 0 ? "Nothing is amiss: no study waits for a worker that is not there." : "Each active study has trials under way, or a worker that asks for them, or is asked by its users themselves."}</p> : <ul>{waiting.map(({ s, why }) => <li key={s["name"]}>{link(s)}: {why!.full}</li>)}</ul>}
      {pools.length > 0 && <p>A worker for them: {pools.slice(0, 8).map((text, i) => <span key={text}>{i > 0 && ", "}<code>{text}</code></span>)}, where 7790 is the port of <code>luthierd --listen</code>.</p>}
      {turns.length > 0 && <ul>{turns.slice(0, 100).map(({ s, why }) => <li key={s["name"]}>{link(s)}: {why!.brief}</li>)}</ul>}
      <h2>Workers that asked since the coordinator started</h2>
      {workers.length === 0 ? <p>None has asked. Start one: <code>luthier-worker --server {location.hostname}:7790</code>, where 7790 is the port of <code>luthierd --listen</code>. A page of <code>luthier ui --db</code> has no workers: end it, then <code>luthier run</code> goes on with the study.</p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Workers"><table>
          <thead><tr>{["worker", "last heard of", "holds", ...OUTCOMES.map(([, words]) => words), "gets no trials of"].map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
          <tbody>{workers.map((w) => (
            <tr key={w["name"]}><td>{w["name"]}</td><td>{ago(w["lastSeen"])}</td><HeldCell worker={w} trials={value.held.of(String(w["name"]))} />{OUTCOMES.map(([f]) => <td key={f} class="number">{w[f] ?? 0}</td>)}
              <td>{((w["rests"] ?? []) as Json[]).map((r) => `${r["study"].split("/")[3]}: ${r["failure"]}`).join("; ")}</td></tr>))}</tbody>
        </table></div>
      )}
    </>
  );
}

/** Who the coordinator takes this page for; and a way to be somebody else. */
function Who({ info }: { info: Json | null }): JSX.Element | null {
  const [asks, setAsks] = useState(false);
  if (info === null || info["open"]) return null;
  return (
    <span class="who">
      {info["caller"]} ({((info["roles"] ?? []) as string[]).join(", ")}){" "}
      <button type="button" class="link" aria-expanded={asks} onClick={() => setAsks(!asks)}>other token</button>
      {asks && <AskToken />}
    </span>
  );
}

/** An address at which there is no page. */
function Nowhere({ what }: { what: string }): JSX.Element {
  useTitle("No such page");
  return <div class="failure" role="alert"><p>{what}</p><p><a href={href("studies")}>All studies</a></p></div>;
}

const KINDS = ["studies", "workers", "admin", "new", "compare"];

/** Returns what is wrong with an address; "": nothing. */
function wrongWith(place: Place): string {
  const [kind = "studies", project, id, part, trial, more] = place.parts;
  if (kind === "…") return `The address “${project}” is broken: a percent sign is followed by two hexadecimal digits.`;
  if (!KINDS.includes(kind)) return `There is no page “${kind}”: there are studies, workers, new, compare and, for admins, admin.`;
  if (kind !== "studies" || project === undefined) return "";
  if (id === undefined) return `The address of a study has its project and its id: #/studies/${project}/ID.`;
  if (part !== undefined && part !== "trials") return `A study has no part “${part}”: there are its plots, and trials.`;
  if (trial !== undefined && !/^[1-9]\d{0,15}$/.test(trial)) return `“${trial}” is no number of a trial: they are 1, 2, 3 and so on.`;
  return more === undefined ? "" : `There is nothing below a trial: “${more}”.`;
}

function App(): JSX.Element {
  const place = usePlace();
  const [kind = "studies", project, id, part, trial] = place.parts;
  const main = useLoaded(async (signal) => call("WorkerService/GetServerInfo", {}, signal), []);
  useEffect(() => { document.querySelector("main")?.scrollTo(0, 0); }, [place.parts.join("/")]);
  const isAdmin = main.value !== null && !main.value["open"] && ((main.value["roles"] ?? []) as string[]).includes("admin");
  const wrong = wrongWith(place);
  const name = project && id ? `projects/${project}/studies/${id}` : "";
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
      <div class="top" role="banner">
        <a class="brand" href={href("studies")}>Luthier</a>
        <nav aria-label="Pages"><a href={href("studies")} aria-current={kind === "studies" ? "page" : undefined}>Studies</a><a href={href("workers")} aria-current={kind === "workers" ? "page" : undefined}>Workers</a>{isAdmin && <a href={href("admin")} aria-current={kind === "admin" ? "page" : undefined}>Admin</a>}</nav>
        <span class="faint">{main.value ? `luthierd ${main.value["version"]}` : ""}</span>
        <Who info={main.value} />
        <Theme />
      </div>
      <main id="main" tabIndex={-1}>
        {wrong !== "" ? <Nowhere key={wrong} what={wrong} /> : kind === "workers" ? <Workers /> : kind === "admin" ? <Admin place={place} /> : kind === "new" ? <Create /> : kind === "compare" ? <Compare place={place} /> : name === "" ? <Studies place={place} />
          : <StudyPage key={name} name={name} place={place} {...(part === "trials" && trial ? { children: (study: Json, recommended: Recommended | null) => <TrialPage key={trial} study={study} number={Number(trial)} recommended={recommended?.trial ?? 0} /> } : {})} />}
      </main>
    </>
  );
}

// All texts of the page are visible; values of fields, which are told to the coordinator, stay as they are.
const former = options.vnode;
options.vnode = (vnode) => {
  if (typeof vnode.type === "string" || vnode.type === Fragment) {
    const props = vnode.props as Record<string, unknown>;
    if (props["children"] !== undefined) props["children"] = visibleAll(props["children"]);
    for (const name of ["title", "aria-label"]) if (typeof props[name] === "string") props[name] = visible(props[name]);
  }
  former?.(vnode);
};
takeToken();
render(<App />, document.getElementById("app")!);
