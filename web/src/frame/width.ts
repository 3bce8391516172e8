/** The width of the page in the four steps of the layout. */
import { computed, signal, type ReadonlySignal } from "@preact/signals";

function matches(query: string): ReadonlySignal<boolean> {
  const list = matchMedia(query);
  const found = signal(list.matches);
  list.addEventListener("change", () => (found.value = list.matches));
  return found;
}

/** Below 600: one column with a tab bar. */
export const isPhone = matches("(max-width: 599.98px)");
/** From 900: the side bar stands; below it is a drawer. */
const hasSideBar = matches("(min-width: 900px)");
/** From 1200: there is room for a panel. */
export const isWide = matches("(min-width: 1200px)");
/** From 600 to 899: the side bar is a drawer. */
export const hasDrawer = computed(() => !isPhone.value && !hasSideBar.value);
