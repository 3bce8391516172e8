/** Whether an agent says of a mode that it acts without asking in it. The words are those of `registry/mode_reach.py`. */
const WORDS =
  "yolo|bypass|danger|unrestricted|autopilot|full.?(?:access|auto)|(?:auto|always|all).?(?:approv|accept|allow)|allow.?all|approv\\w*.?all|(?:dont|never|no).?ask|(?:without|no|never|not|don.?t|skips?) (?:\\w+ ){0,3}?(?:ask|prompt|approv|confirm|permission)";
const IN_NAME = new RegExp(`\\bfull\\b|${WORDS}`, "i");
const IN_DESCRIPTION = new RegExp(WORDS, "i");
const USUAL = /^(?:ask|alwaysask|default|normal|manual|readonly|plan|planning|planner|architect|chat|review|explore|edit|acceptedits|autoedit)$/;

export function asksNothing(id: string, name: string, description = ""): boolean {
  if (IN_NAME.test(`${id} ${name}`)) return true;
  const plain = id.toLowerCase().replace(/mode$/, "").replace(/[^a-z]/g, "");
  return !USUAL.test(plain) && IN_DESCRIPTION.test(description);
}
