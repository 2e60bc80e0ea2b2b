// Texts of users as one reads them: controls of writing directions, which would turn what stands beside them, are shown and not obeyed.
const CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/, EACH = new RegExp(CONTROLS, "g");

/** Returns a text whose controls of writing directions are escapes, as "\u202e". */
export const visible = (text: string): string => (CONTROLS.test(text) ? text.replace(EACH, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`) : text);

/** Returns children of an element with all texts visible. */
export function visibleAll(children: unknown): unknown {
  return typeof children === "string" ? visible(children) : Array.isArray(children) ? children.map(visibleAll) : children;
}
