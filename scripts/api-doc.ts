/**
 * Writes docs/api.md from the OpenAPI document of a running gateway with its bundled plugins. Needs a build.
 * `test/api-reference.test.ts` fails if the page differs from the generated text.
 */
import { writeFileSync } from "node:fs";
import { startTestGateway } from "../test/support/gateway/gateway.ts";

interface Schema {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  format?: string;
  description?: string;
  default?: unknown;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  required?: string[];
}

interface Content {
  content?: Record<string, { schema?: Schema }>;
}

interface Operation {
  summary?: string;
  description?: string;
  tags?: string[];
  security?: unknown[];
  "x-backplane-scope"?: string;
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema: Schema }[];
  requestBody?: Content;
  responses: Record<string, Content & { description: string }>;
}

export interface OpenApi {
  info: { description: string };
  tags: { name: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

export function renderApiReference(document: OpenApi): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  const tags = [...document.tags.map(({ name }) => name), "Adapters"];
  const parts = [
    "# API reference",
    "",
    "Generated from the OpenAPI document of a running gateway by `npm run docs:api`; a test compares the two. A running",
    "gateway serves the same document at `/openapi.json` and lets you try it at `/explorer`.",
    "",
    document.info.description,
    "",
    "A required field is marked with `*`. The scope is the one that an API key needs; the admin token has all of them.",
  ];
  for (const tag of new Set(tags)) {
    const tagged = operations.filter(({ operation }) => (operation.tags?.[0] ?? "") === tag);
    if (tagged.length === 0) continue;
    parts.push("", `## ${tag}`);
    for (const { method, path, operation } of tagged)
      parts.push("", ...renderOperation(method, path, operation));
  }
  parts.push("", "## Objects");
  const names = Object.keys(document.components.schemas).toSorted((a, b) => (a < b ? -1 : 1));
  for (const name of names) {
    const schema = document.components.schemas[name]!;
    parts.push("", `### ${name}`, "");
    if (schema.description !== undefined) parts.push(schema.description, "");
    parts.push(...fieldTable(schema));
  }
  return `${parts
    .join("\n")
    .replaceAll(/\n{3,}/g, "\n\n")
    .trimEnd()}\n`;
}

function renderOperation(method: string, path: string, operation: Operation): string[] {
  const lines = [`### ${method.toUpperCase()} ${path}`, ""];
  if (operation.summary !== undefined) lines.push(sentence(operation.summary), "");
  if (operation.description !== undefined) lines.push(operation.description, "");
  const is_public = operation.security?.length === 0;
  const scope = operation["x-backplane-scope"];
  lines.push(
    is_public
      ? "No credential is needed."
      : `Scope: ${scope === undefined ? "any credential" : `\`${scope}\``}.`,
    "",
  );
  const parameters = operation.parameters ?? [];
  if (parameters.length > 0) {
    lines.push("| parameter | in | type | |", "|---|---|---|---|");
    for (const { name, in: where, required, description, schema } of parameters) {
      const mark = required === true && where !== "path" ? "*" : "";
      lines.push(`| \`${name}\`${mark} | ${where} | ${typeText(schema)} | ${cell(description ?? "")} |`);
    }
    lines.push("");
  }
  for (const [type, { schema }] of Object.entries(operation.requestBody?.content ?? {})) {
    lines.push(`Body (\`${type}\`)${refName(schema) === null ? "" : `: ${typeText(schema!)}`}`, "");
    if (schema !== undefined && refName(schema) === null) lines.push(...fieldTable(schema), "");
  }
  lines.push("| status | response |", "|---|---|");
  for (const [status, response] of Object.entries(operation.responses)) {
    if (status === "default") continue;
    const types = Object.entries(response.content ?? {}).map(([type, { schema }]) =>
      type === "application/json" && schema !== undefined ? typeText(schema) : `\`${type}\``,
    );
    lines.push(
      `| ${status} | ${cell(response.description)}${types.length === 0 ? "" : ` (${types.join(", ")})`} |`,
    );
  }
  return lines;
}

function fieldTable(schema: Schema): string[] {
  const fields = Object.entries(schema.properties ?? {});
  if (fields.length === 0) return [`Type: ${typeText(schema)}`];
  const required = new Set(schema.required ?? []);
  return [
    "| field | type | |",
    "|---|---|---|",
    ...fields.map(
      ([name, field]) =>
        `| \`${name}\`${required.has(name) ? "*" : ""} | ${typeText(field)} | ${cell(field.description ?? "")} |`,
    ),
  ];
}

function typeText(schema: Schema): string {
  const name = refName(schema);
  if (name !== null) return name === "Json" ? "any JSON" : `[${name}](#${name.toLowerCase()})`;
  if (schema.const !== undefined) return `\`${cell(JSON.stringify(schema.const))}\``;
  if (schema.enum !== undefined)
    return schema.enum.map((value) => `\`${cell(JSON.stringify(value))}\``).join(", ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return [...new Set(choices.map(typeText))].join(" or ");
  if (schema.allOf !== undefined) return schema.allOf.map(typeText).join(" and ");
  if (schema.type === "array")
    return `array of ${schema.items === undefined ? "any JSON" : typeText(schema.items)}`;
  if (schema.type === "object" && schema.properties !== undefined)
    return `object (${Object.keys(schema.properties)
      .map((field) => `\`${field}\``)
      .join(", ")})`;
  if (Array.isArray(schema.type)) return schema.type.join(" or ");
  if (schema.type === undefined) return "any JSON";
  return schema.format === undefined ? schema.type : `${schema.type} (${schema.format})`;
}

function refName(schema: Schema | undefined): string | null {
  return schema?.$ref?.split("/").at(-1) ?? null;
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

async function main(): Promise<void> {
  const gateway = await startTestGateway();
  try {
    const { body } = await gateway.http<OpenApi>("GET", "/openapi.json");
    writeFileSync(new URL("../docs/api.md", import.meta.url), renderApiReference(body));
  } finally {
    await gateway.dispose();
  }
}

if (import.meta.main) await main();
