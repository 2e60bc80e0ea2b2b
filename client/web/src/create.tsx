// The page on which a study is stated: a form of the API's own fields, and beside it the study file that it comes to. Either may be
// written; the coordinator says what is wrong meanwhile, at its line and at its field.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, CallError, type Json } from "./api";
import { loadSchema, type Schema } from "./descriptors";
import { short } from "./figure";
import { MessageForm } from "./form";
import { aims } from "./metrics";
import { Action, Failure, Section, studyHref, useLoaded, useTitle } from "./parts";
import { modelOf, yamlOf } from "./yaml";

const EXAMPLE = `# A study file, as luthier study create -f takes it.
space:
  - {name: lr, float: {min: 1.0e-5, max: 0.1, scale: LOG}}
  - {name: layers, int: {min: 1, max: 8}}
  - {name: kind, categorical: {values: [adam, sgd]}}
metric: {name: loss, goal: MINIMIZE}
budget: {max_trials: 50}
# Programs ask for settings and tell results, unless there is:
# objective:
#   command:
#     argv: [python3, train.py, "--lr={lr}", "--kind={kind}"]
`;
const SPEC = "luthier.v1.StudySpec";
const WAIT = 300; // Milliseconds of silence before a text is checked.

/** Something that is wrong, and where; line 0: nowhere. */
export interface Problem { line: number; column: number; path: string; what: string }

/** Reads what CheckStudyFile says of a text: "line:3:14: space[0].float.max: …" for each violation. */
export function problemsOf(message: string): Problem[] {
  return message.split("\n").filter((text) => text !== "").map((text) => {
    const match = /^line:(\d+):(\d+): (.*)$/.exec(text);
    const what = match?.[3] ?? text.replace(/^line: /, "");
    return { line: Number(match?.[1] ?? 0), column: Number(match?.[2] ?? 0), path: /^([a-z_][\w.[\]]*): /.exec(what)?.[1] ?? "", what };
  });
}

type Checked = { spec: Json; algorithm: Json | undefined; reasons: string[] } | { problems: Problem[] } | { error: CallError };

function useChecked(text: string): { checked: Checked | null; of: string } {
  const [state, setState] = useState<{ checked: Checked | null; of: string }>({ checked: null, of: "" });
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const answer = await call("StudyService/CheckStudyFile", { text }, stop.signal);
        setState({ checked: { spec: answer["spec"], algorithm: answer["resolvedAlgorithm"], reasons: answer["algorithmReasons"] ?? [] }, of: text });
      } catch (failure) {
        const error = failure as CallError;
        if (stop.signal.aborted) return;
        setState({ checked: error.code === "invalid_argument" ? { problems: problemsOf(error.message) } : { error }, of: text });
      }
    }, WAIT);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [text]);
  return state;
}

function rangeOf(p: Json): string {
  const range = p["float"] ?? p["int"];
  const many = p["count"] === undefined ? "" : ` × ${p["count"]}`;
  if (range) return `${short(Number(range["min"] ?? 0))} to ${short(Number(range["max"] ?? 0))}${range["scale"] && range["scale"] !== "LINEAR" ? `, ${String(range["scale"]).toLowerCase()}` : ""}${many}`;
  if (p["bool"]) return "true or false";
  return ((p["categorical"] ?? p["ordinal"])?.["values"] ?? []).join(p["ordinal"] ? " < " : ", ") + many;
}

function Preview({ spec, algorithm, reasons }: { spec: Json; algorithm: Json | undefined; reasons: string[] }): JSX.Element {
  const named = Object.keys(algorithm ?? spec["algorithm"] ?? { auto: {} })[0] ?? "auto";
  return (
    <>
      <p>To <strong>{aims({ spec })}</strong> in {spec["budget"]?.maxTrials ?? 100} trials by <strong>{named}</strong>.</p>
      {reasons.length > 0 && <ul>{reasons.map((r) => <li key={r}>{r}</li>)}</ul>}
      <table><caption>Parameters</caption><tbody>{((spec["space"] ?? []) as Json[]).slice(0, 200).map((p) => (
        <tr key={p["name"]}><th scope="row">{p["name"]}</th><td>{rangeOf(p)}</td><td>{p["condition"] && `if ${p["condition"].parent} fits`}</td></tr>))}</tbody></table>
    </>
  );
}

/** The form of the fields, which follows the text wherever that is right. */
function Fields({ schema, text, checked, fresh, setText }: { schema: Schema; text: string; checked: Checked | null; fresh: boolean; setText: (text: string) => void }): JSX.Element {
  const message = schema.messages.get(SPEC)!;
  const [model, setModel] = useState<Json>({});
  const written = useRef(""); // The text that the form has written last.
  const own = written.current === text;
  useEffect(() => {
    if (!own && fresh && checked !== null && "spec" in checked) setModel(modelOf(schema, message, checked.spec));
  }, [checked, fresh]);
  const write = (next: Json) => {
    setModel(next);
    written.current = yamlOf(schema, message, next);
    setText(written.current);
  };
  const problems = own && fresh && checked !== null && "problems" in checked ? checked.problems : [];
  const lost = !own && fresh && checked !== null && "problems" in checked;
  return (
    <>
      {lost && <p class="away">The text is wrong, so that the form does not follow it. Mend the text, or <button type="button" class="link" onClick={() => write(model)}>go back to the form</button>.</p>}
      <fieldset class="plain" disabled={lost} aria-label="Fields">
        <MessageForm schema={schema} wrong={problems.map((p) => ({ path: p.path, what: p.what.slice(p.path === "" ? 0 : p.path.length + 2) }))} path="" message={message} model={model} set={write} />
      </fieldset>
    </>
  );
}

export function Create(): JSX.Element {
  useTitle("New study");
  const [text, setText] = useState(EXAMPLE), [id, setId] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  const { checked, of } = useChecked(text);
  const schema = useLoaded(() => loadSchema(), []);
  const problems = checked !== null && "problems" in checked ? checked.problems : [];
  const wrong = new Set(problems.map((p) => p.line));
  const lines = text.split("\n").length;
  const go = (problem: Problem) => {
    const at = text.split("\n").slice(0, problem.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + Math.max(0, problem.column - 1);
    area.current?.focus();
    area.current?.setSelectionRange(at, at);
  };
  const create = async () => {
    if (checked === null || of !== text || !("spec" in checked)) throw new Error("the text is not checked yet, or wrong");
    const study = await call("StudyService/CreateStudy", { studyId: id.trim(), spec: checked.spec });
    location.hash = studyHref(String(study["name"]));
  };
  return (
    <>
      <h1>New study</h1>
      <div class="form">
        <label>Id <input value={id} onInput={(e) => setId(e.currentTarget.value)} /></label>
        <Action label="Create the study" run={create} />
      </div>
      <p class="faint">The form and the study file beside it say the same; write in either. What the form writes has no comments.</p>
      <div class="halves">
        <section aria-label="Form">
          {schema.error && <Failure error={schema.error} />}
          {schema.value && <Fields schema={schema.value} text={text} checked={checked} fresh={of === text} setText={setText} />}
        </section>
        <div>
        <div class="editor">
          <pre aria-hidden="true" class="numbers">{Array.from({ length: lines }, (_, i) => <span key={i} class={wrong.has(i + 1) ? "wrong" : ""}>{i + 1}{"\n"}</span>)}</pre>
          <textarea ref={area} spellcheck={false} wrap="off" aria-label="Study file" aria-invalid={problems.length > 0} aria-describedby="said" rows={Math.max(24, lines)} value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </div>
        <div id="said" aria-live="polite">
          {checked === null && <p role="status">…</p>}
          {checked !== null && "error" in checked && <Failure error={checked.error} />}
          {problems.length > 0 && (
            <Section title={problems.length === 1 ? "One thing is wrong" : `${problems.length} things are wrong`}>
              <ul>{problems.map((p) => <li key={`${p.line}:${p.column}:${p.what}`} class="bad">{p.line > 0 && <button type="button" class="link" onClick={() => go(p)}>line {p.line}</button>} {p.what}</li>)}</ul>
            </Section>
          )}
          {checked !== null && "spec" in checked && <Section title="What it means"><Preview {...checked} /></Section>}
        </div>
        </div>
      </div>
    </>
  );
}
