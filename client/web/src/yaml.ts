// Study files: what a form of fields comes to as YAML. The model has the fields by their names in study files, in the texts that
// were typed; the schema says which of them are numbers.
import type { Json } from "./api";
import type { Field, Message, Schema } from "./descriptors";

const WIDTH = 100; // A value that is longer gets lines of its own.
const PLAIN = /^[A-Za-z_][A-Za-z0-9_.\/-]*$/, WORDS = /^(true|false|yes|no|on|off|null|y|n)$/i, NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

const quoted = (text: string): string => (PLAIN.test(text) && !WORDS.test(text) ? text : JSON.stringify(text));

function scalar(field: Field, value: unknown): string {
  const text = String(value);
  if (field.kind === "bool") return text;
  if (field.kind === "number") return NUMBER.test(text) || /^[+-]?(Infinity|NaN)$/.test(text) ? text : JSON.stringify(text);
  return quoted(text);
}

const isOpen = (schema: Schema, field: Field): boolean => field.kind === "message" && !schema.messages.has(field.type);

/** Returns a value on one line. */
function flow(schema: Schema, field: Field, value: unknown, one = false): string {
  if (field.many && !one) {
    const entry = schema.messages.get(field.type);
    if (entry?.entry) return `{${Object.entries(value as Json).map(([k, v]) => `${quoted(k)}: ${flow(schema, entry.fields[1]!, v, true)}`).join(", ")}}`;
    return `[${(value as unknown[]).map((v) => flow(schema, field, v, true)).join(", ")}]`;
  }
  if (isOpen(schema, field)) return typeof value === "string" ? quoted(value) : JSON.stringify(value);
  if (field.kind !== "message") return scalar(field, value);
  const message = schema.messages.get(field.type)!;
  return `{${present(message, value as Json).map((f) => `${f.name}: ${flow(schema, f, (value as Json)[f.name])}`).join(", ")}}`;
}

const present = (message: Message, model: Json): Field[] => message.fields.filter((f) => model[f.name] !== undefined);

function lines(schema: Schema, message: Message, model: Json, indent: string): string[] {
  return present(message, model).flatMap((field) => {
    const value = model[field.name], whole = `${indent}${field.name}: ${flow(schema, field, value)}`;
    const inner = schema.messages.get(field.type);
    const list = field.many && field.kind === "message" && !inner?.entry && (value as unknown[]).length > 0;
    if (list) {
      return [`${indent}${field.name}:`, ...(value as Json[]).flatMap((item) => {
        const line = `${indent}  - ${flow(schema, field, item, true)}`;
        if (line.length <= WIDTH || inner === undefined || Object.keys(item).length === 0) return [line];
        const [first, ...others] = lines(schema, inner, item, `${indent}    `);
        return [`${indent}  - ${first!.trimStart()}`, ...others];
      })];
    }
    if (whole.length <= WIDTH || field.kind !== "message" || field.many || inner === undefined) return [whole];
    return [`${indent}${field.name}:`, ...lines(schema, inner, value as Json, `${indent}  `)];
  });
}

/** Returns a study file. */
export function yamlOf(schema: Schema, message: Message, model: Json): string {
  return `${lines(schema, message, model, "").join("\n")}\n`;
}

/** Returns a message in JSON, as calls have it, with the names of study files. */
export function modelOf(schema: Schema, message: Message, json: Json): Json {
  const model: Json = {};
  for (const field of message.fields) {
    const value: unknown = json[field.json];
    if (value === undefined) continue;
    const inner = field.kind === "message" ? schema.messages.get(field.type) : undefined;
    if (inner === undefined || inner.entry) model[field.name] = value;
    else model[field.name] = field.many ? (value as Json[]).map((v) => modelOf(schema, inner, v)) : modelOf(schema, inner, value as Json);
  }
  return model;
}
