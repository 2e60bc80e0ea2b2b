// Calls of the coordinator by the Connect protocol, in JSON: 64-bit integers come as texts.

export interface Violation { field: string; description: string }
export interface Details { reason?: string; violations?: Violation[] }

/** What the coordinator, or the way to it, said instead of an answer. */
export class CallError extends Error {
  constructor(readonly code: string, message: string, readonly details: Details = {}) {
    super(message);
  }
  /** Whether asking again may help. */
  get passing(): boolean {
    return ["unavailable", "canceled", "deadline_exceeded", "aborted", "resource_exhausted"].includes(this.code);
  }
}

export type Json = Record<string, any>;

const KEY = "luthier-token";

/** Takes the token that a link brought (#token=…), which then leaves the address bar. */
export function takeToken(): void {
  const match = /^#token=([^&]+)(?:&(.*))?$/.exec(location.hash);
  if (match === null) return;
  sessionStorage.setItem(KEY, decodeURIComponent(match[1]!));
  history.replaceState(null, "", `${location.pathname}#${match[2] ?? "/"}`);
}

export const token = (): string => sessionStorage.getItem(KEY) ?? "";
export const setToken = (text: string): void => sessionStorage.setItem(KEY, text.trim());

function headers(type: string): HeadersInit {
  const own = token();
  return { "Content-Type": type, "Connect-Protocol-Version": "1", ...(own ? { Authorization: `Bearer ${own}` } : {}) };
}

function errorOf(error: Json): CallError {
  const detail = error["details"]?.[0]?.debug as Details | undefined;
  return new CallError(String(error["code"] ?? "unknown"), String(error["message"] ?? ""), detail);
}

async function failure(response: Response): Promise<CallError> {
  const text = await response.text();
  try {
    return errorOf(JSON.parse(text) as Json);
  } catch {
    // From a proxy, or from the gateway before it has looked at the call.
    const codes: Record<number, string> = { 401: "unauthenticated", 403: "permission_denied", 404: "not_found", 429: "resource_exhausted", 502: "unavailable", 503: "unavailable", 504: "unavailable" };
    return new CallError(codes[response.status] ?? "unknown", text || `HTTP ${response.status}`);
  }
}

const service = (method: string): string => `/luthier.v1.${method}`;

/** Sends a call with one answer. Throws a CallError unless it succeeds. */
export async function send(method: string, type: string, body: BodyInit, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(service(method), { method: "POST", headers: headers(type), body, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (signal?.aborted) throw new CallError("canceled", "left");
    throw new CallError("unavailable", `the coordinator does not answer (${String(error)})`);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

/** Makes a call with one answer: call("StudyService/GetStudy", {name}). */
export async function call(method: string, request: Json = {}, signal?: AbortSignal): Promise<Json> {
  return (await (await send(method, "application/json", JSON.stringify(request), signal)).json()) as Json;
}

/** Makes a call with a stream of answers, each of which goes to `on`. Ends when the stream does. */
export async function stream(method: string, request: Json, signal: AbortSignal, on: (message: Json) => void): Promise<void> {
  const text = new TextEncoder().encode(JSON.stringify(request));
  const body = new Uint8Array(5 + text.length);
  new DataView(body.buffer).setUint32(1, text.length);
  body.set(text, 5);
  let response: Response;
  try {
    response = await fetch(service(method), { method: "POST", headers: headers("application/connect+json"), body, signal });
  } catch (error) {
    throw new CallError(signal.aborted ? "canceled" : "unavailable", `the coordinator does not answer (${String(error)})`);
  }
  if (!response.ok || response.body === null) throw await failure(response);
  const reader = response.body.getReader();
  let held = new Uint8Array(0);
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      throw new CallError(signal.aborted ? "canceled" : "unavailable", `the connection broke (${String(error)})`);
    }
    if (part.done) throw new CallError("unavailable", "the connection ended");
    const joined = new Uint8Array(held.length + part.value.length);
    joined.set(held);
    joined.set(part.value, held.length);
    held = joined;
    while (held.length >= 5) {
      const size = new DataView(held.buffer, held.byteOffset).getUint32(1);
      if (held.length < 5 + size) break;
      const message = JSON.parse(new TextDecoder().decode(held.subarray(5, 5 + size))) as Json;
      const last = (held[0]! & 2) !== 0;
      held = held.slice(5 + size);
      if (last) {
        if (message["error"]) throw errorOf(message["error"] as Json);
        return;
      }
      on(message);
    }
  }
}

/** A name that makes a change safe to send again. */
export const requestId = (): string => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;

export const idOf = (name: string): string => name.split("/").slice(3).join("/");
