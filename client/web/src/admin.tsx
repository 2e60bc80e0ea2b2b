// The page of admins: tokens, projects, and the audit.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call, requestId, type Json } from "./api";
import { Audit } from "./audit";
import { Action, ago, Failure, Section, time, useLoaded, useTitle, type Place } from "./parts";

const ROLES = ["VIEWER", "USER", "MAINTAINER", "WORKER", "ADMIN"];

function stateOf(token: Json): string {
  if (token["revokeTime"]) return "revoked";
  return new Date(token["expireTime"]).getTime() <= Date.now() ? "expired" : "in force";
}

/** A secret that is shown once. */
function Secret({ text, of }: { text: string; of: string }): JSX.Element {
  return <p role="status">The token of {of}, which is not shown again: <code class="secret">{text}</code> <Action label="Copy" run={() => navigator.clipboard.writeText(text)} /></p>;
}

function NewToken({ projects, made }: { projects: Json[]; made: (answer: Json) => void }): JSX.Element {
  const [name, setName] = useState(""), [role, setRole] = useState("USER"), [project, setProject] = useState("default");
  const [days, setDays] = useState("90"), [commands, setCommands] = useState(false);
  const create = async () => {
    made(await call("AdminService/CreateToken", { name, project, roles: [role], commands, lifetime: `${Math.round(Number(days) * 86400)}s`, requestId: requestId() }));
    setName("");
  };
  return (
    <div class="form">
      <label>Name <input value={name} onInput={(e) => setName(e.currentTarget.value)} /></label>
      <label>Role <select value={role} onChange={(e) => setRole(e.currentTarget.value)}>{ROLES.map((r) => <option key={r} value={r}>{r.toLowerCase()}</option>)}</select></label>
      <label>Project <select value={project} onChange={(e) => setProject(e.currentTarget.value)}>{projects.map((p) => <option key={p["id"]}>{p["id"]}</option>)}</select></label>
      <label>Days <input type="number" min="1" max="3650" value={days} onInput={(e) => setDays(e.currentTarget.value)} /></label>
      <label><input type="checkbox" checked={commands} onChange={(e) => setCommands(e.currentTarget.checked)} /> may create studies with a command</label>
      <Action label="Make a token" run={create} />
    </div>
  );
}

function Tokens({ tokens, projects, again }: { tokens: Json[]; projects: Json[]; again: () => void }): JSX.Element {
  const [secret, setSecret] = useState<{ text: string; of: string } | null>(null);
  const [all, setAll] = useState(false);
  const shown = tokens.filter((t) => all || stateOf(t) === "in force");
  const tell = (answer: Json) => {
    setSecret({ text: String(answer["secret"]), of: String(answer["token"].name) });
    again();
  };
  return (
    <Section title="Tokens">
      <NewToken projects={projects} made={tell} />
      {secret && <Secret {...secret} />}
      <p><label><input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> with those that are no longer in force</label></p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Tokens"><table>
        <thead><tr>{["name", "project", "roles", "state", "until", "last used", "what to do"].map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
        <tbody>{shown.map((t) => (
          <tr key={t["id"]}>
            <td>{t["name"]} <span class="faint">{t["id"]}</span></td><td>{t["project"]}</td>
            <td>{[...((t["roles"] ?? []) as string[]).map((r) => r.toLowerCase()), ...(t["commands"] ? ["commands"] : [])].join(", ")}</td>
            <td>{stateOf(t)}</td><td>{time(t["expireTime"])}</td><td>{ago(t["lastUseTime"])}</td>
            <td>{stateOf(t) === "in force" && (
              <span class="actions">
                <Action label="New secret" confirm={`Really? The old secret of ${t["name"]} ends`} run={async () => tell(await call("AdminService/RotateToken", { id: t["id"], requestId: requestId() }))} />
                <Action label="Revoke" confirm={`Really end ${t["name"]}?`} run={() => call("AdminService/RevokeToken", { id: t["id"] }).then(again)} />
              </span>)}</td>
          </tr>))}</tbody>
      </table></div>
    </Section>
  );
}

const QUOTAS: [string, string][] = [["studies", "studies"], ["runningTrials", "running trials"], ["waitingAsks", "waiting asks"], ["suggestCpu", "processors"], ["bytes", "bytes"]];

function Quotas({ project, again }: { project: Json; again: () => void }): JSX.Element {
  const [quotas, setQuotas] = useState<Json>(project["quotas"] ?? {});
  return (
    <tr>
      <th scope="row">{project["id"]}</th>
      {QUOTAS.map(([field, label]) => (
        <td key={field}><input class="short" type="number" min="0" step="any" aria-label={`${label} of ${project["id"]}; 0: no limit`} value={String(quotas[field] ?? 0)}
          onInput={(e) => setQuotas({ ...quotas, [field]: Number(e.currentTarget.value) })} /></td>))}
      <td><Action label="Set" run={() => call("AdminService/UpdateProject", { id: project["id"], quotas, requestId: requestId() }).then(again)} /></td>
    </tr>
  );
}

function Projects({ projects, again }: { projects: Json[]; again: () => void }): JSX.Element {
  const [id, setId] = useState("");
  return (
    <Section title="Projects">
      <div class="form">
        <label>Name of a new project <input value={id} onInput={(e) => setId(e.currentTarget.value)} /></label>
        <Action label="Make a project" run={async () => { await call("AdminService/CreateProject", { id, requestId: requestId() }); setId(""); again(); }} />
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Projects"><table>
        <caption>The most that each may have; 0: no limit</caption>
        <thead><tr>{["project", ...QUOTAS.map(([, label]) => label), "change"].map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
        <tbody>{projects.map((p) => <Quotas key={p["id"]} project={p} again={again} />)}</tbody>
      </table></div>
    </Section>
  );
}

export function Admin({ place }: { place: Place }): JSX.Element {
  useTitle("Admin");
  const { value, error, again } = useLoaded(async (signal) => {
    const [tokens, projects] = await Promise.all([call("AdminService/ListTokens", {}, signal), call("AdminService/ListProjects", {}, signal)]);
    const listed = (projects["projects"] ?? []) as Json[];
    return { tokens: (tokens["tokens"] ?? []) as Json[], projects: listed.some((p) => p["id"] === "default") ? listed : [{ id: "default" }, ...listed] };
  }, []);
  if (error !== null) return <><h1>Admin</h1><Failure error={error} again={again} /></>;
  if (value === null) return <p role="status">…</p>;
  return (
    <>
      <h1>Admin</h1>
      <Tokens tokens={value.tokens} projects={value.projects} again={again} />
      <Projects projects={value.projects} again={again} />
      <Audit place={place} tokens={value.tokens} />
    </>
  );
}
