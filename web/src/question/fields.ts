/** The fields of a form, their first values, and what is wrong with what was typed. Pure. */
import { words } from "../words";

type Json = Record<string, unknown>;
export type Value = string | boolean | string[];

export interface Field {
  name: string;
  title: string;
  description: string;
  type: "string" | "number" | "integer" | "boolean" | "array" | "unknown";
  format: string;
  pattern: string;
  choices: { value: string; title: string }[];
  isRequired: boolean;
  isSecret: boolean;
  first: Value;
  least?: number;
  most?: number;
}

const TYPES = ["string", "number", "integer", "boolean", "array"];
const SECRET = /pass(word|phrase|wd)|secret|token|api[-_ ]?key|credential|private[-_ ]?key|\bpin\b/i;

function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function choicesOf(schema: Json): Field["choices"] {
  const items = object(schema["items"]);
  const titled = schema["oneOf"] ?? schema["anyOf"] ?? items["anyOf"] ?? items["oneOf"];
  if (Array.isArray(titled)) {
    return titled.map(object).map((item) => ({ value: text(item["const"]) || text(item["value"]), title: text(item["title"]) || text(item["const"]) || text(item["value"]) }));
  }
  const plain = schema["enum"] ?? items["enum"];
  return Array.isArray(plain) ? plain.map((value) => ({ value: String(value), title: String(value) })) : [];
}

function bound(schema: Json, ...names: string[]): number | undefined {
  return names.map((name) => schema[name]).find((value): value is number => typeof value === "number");
}

/** Returns the fields of a form in their order. */
export function fieldsOf(schema: unknown): Field[] {
  const form = object(schema);
  const required = Array.isArray(form["required"]) ? form["required"] : [];
  return Object.entries(object(form["properties"])).map(([name, found]) => {
    const own = object(found);
    const type = (TYPES.includes(text(own["type"])) ? own["type"] : "unknown") as Field["type"];
    const given = own["default"];
    const first: Value = type === "boolean" ? given === true : type === "array" ? (Array.isArray(given) ? given.map(String) : []) : given === undefined || given === null ? "" : String(given);
    const least = bound(own, "minimum", "minLength", "minItems");
    const most = bound(own, "maximum", "maxLength", "maxItems");
    return {
      name,
      title: text(own["title"]) || name,
      description: text(own["description"]),
      type,
      format: text(own["format"]),
      pattern: text(own["pattern"]),
      choices: choicesOf(own),
      isRequired: required.includes(name),
      isSecret: SECRET.test(`${name} ${text(own["title"])} ${text(own["format"])}`),
      first,
      ...(least === undefined ? {} : { least }),
      ...(most === undefined ? {} : { most }),
    };
  });
}

function range(field: Field): string {
  if (field.least !== undefined && field.most !== undefined) return `${field.least} – ${field.most}`;
  return field.least !== undefined ? `≥ ${field.least}` : `≤ ${field.most ?? ""}`;
}

function isOutside(field: Field, size: number): boolean {
  return (field.least !== undefined && size < field.least) || (field.most !== undefined && size > field.most);
}

function isOfFormat(value: string, format: string): boolean {
  if (format === "email") return /^[^@\s]+@[^@\s]+$/.test(value);
  if (format === "uri") return /^[A-Za-z][A-Za-z0-9+.-]*:\S+$/.test(value);
  if (format === "date") return /^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value));
  return format !== "date-time" || !Number.isNaN(Date.parse(value));
}

/** Returns what is wrong with a value; empty if nothing is. */
export function faultOf(field: Field, value: Value): string {
  const form = words.question.form;
  if (field.type === "unknown") return field.isRequired ? form.unknown(field.title) : "";
  if (field.type === "boolean") return "";
  if (Array.isArray(value)) {
    if (value.length === 0 && !field.isRequired) return "";
    if (value.length === 0 && (field.least ?? 1) > 0) return form.missing(field.title);
    return isOutside(field, value.length) ? form.items(field.title, range(field)) : "";
  }
  const typed = String(value);
  if (typed.trim() === "") return field.isRequired ? form.missing(field.title) : "";
  if (field.type === "number" || field.type === "integer") {
    const number = Number(typed);
    if (!Number.isFinite(number)) return form.number(field.title);
    if (field.type === "integer" && !Number.isSafeInteger(number)) return form.whole(field.title);
    return isOutside(field, number) ? form.range(field.title, range(field)) : "";
  }
  if (isOutside(field, [...typed].length)) return form.length(field.title, range(field));
  return isOfFormat(typed, field.format) ? "" : form.format(field.title, field.format);
}

/** Returns what is sent: values of the types that the form asks for, without empty fields that may be left out. */
export function contentOf(fields: readonly Field[], values: Record<string, Value>): Record<string, unknown> {
  const content: Record<string, unknown> = {};
  for (const field of fields) {
    const value = values[field.name] ?? field.first;
    if (field.type === "unknown") continue;
    if (field.type === "number" || field.type === "integer") {
      if (String(value).trim() !== "") content[field.name] = Number(value);
    } else if (field.type === "boolean" || Array.isArray(value) ? true : value !== "" || field.isRequired) content[field.name] = value;
  }
  return content;
}
