// The list of a long page's sections. It stays in sight, and addresses name a section: …?section=importance.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { sectionId, withQuery, type Place } from "./parts";

const PATIENCE = 3000; // Milliseconds in which figures above a section may still grow, so that it is brought back.

/** Shows a section, and keeps it in its place while the page is made, until somebody does something else. Returns what ends that. */
function bring(section: HTMLElement, page: HTMLElement): () => void {
  section.querySelector<HTMLElement>("h2")?.focus({ preventScroll: true });
  const align = () => section.scrollIntoView();
  const observer = new ResizeObserver(align), acts = ["wheel", "touchmove", "keydown", "pointerdown"];
  const end = () => {
    observer.disconnect();
    clearTimeout(timer);
    for (const act of acts) removeEventListener(act, end);
  };
  const timer = setTimeout(end, PATIENCE);
  for (const act of acts) addEventListener(act, end, { passive: true });
  align();
  observer.observe(page);
  return end;
}

/** Sections with the list of those that are there. `last`: links to what belongs to them, and is elsewhere. `whole`: all are there. */
export function Sections({ place, whole, last, children }: { place: Place; whole: boolean; last: ComponentChildren; children: ComponentChildren }): JSX.Element {
  const box = useRef<HTMLDivElement>(null), end = useRef<() => void>(() => undefined);
  const [titles, setTitles] = useState<string[]>([]);
  useEffect(() => { // What a study has may change with all that comes.
    const found = [...box.current!.querySelectorAll("section > h2")].map((h) => h.textContent ?? "");
    if (found.join("\n") !== titles.join("\n")) setTitles(found);
  });
  const wanted = place.query.get("section") ?? "", isThere = titles.some((title) => sectionId(title) === wanted);
  const go = (id: string) => {
    const section = document.getElementById(`section-${id}`);
    end.current();
    if (section !== null) end.current = bring(section, box.current!);
  };
  useEffect(() => {
    if (isThere) go(wanted);
    return () => end.current();
  }, [wanted, isThere]);
  return (
    <div ref={box}>
      {(titles.length > 1 || !whole) && (
        <nav class="scroll jump" aria-label="Sections"><ul>
          {titles.map((title) => <li key={title}><a href={withQuery(place, "section", sectionId(title))} aria-current={wanted === sectionId(title) ? "location" : undefined} onClick={() => { if (wanted === sectionId(title)) go(wanted); }}>{title}</a></li>)}
          <li>{last}</li>
        </ul></nav>
      )}
      {children}
    </div>
  );
}
