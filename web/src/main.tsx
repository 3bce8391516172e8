import { render } from "preact";
import { words } from "./words";

const place = document.getElementById("app");
if (place !== null) render(<main><h1>{words.name}</h1></main>, place);
