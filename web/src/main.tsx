import "./frame/fragment"; // first: a pairing code leaves the address before anything else runs
import { render } from "preact";
import { Shell } from "./frame/shell";
import { makeApp } from "./store/app";

const app = makeApp();
// For the console of the browser: what the page holds, and nothing that it could not do anyway.
Object.defineProperty(globalThis, "dragoman", { value: app.inside });
const place = document.getElementById("app");
if (place !== null) render(<Shell app={app} />, place);
