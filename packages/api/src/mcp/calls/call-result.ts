/**
 * An ended invocation as a `tools/call` result. A failure of the tool and a denial by a person or the policy are results
 * with `isError`, so that the model sees them; a call of an unknown tool is a protocol error.
 */
import {
  type BackplaneError,
  ERROR_CODES,
  type Invocation,
  isErrorCode,
  isObject,
  type Json,
  type JsonObject,
  MCP_ERRORS,
} from "@backplane/contract";
import { McpError } from "../protocol/json-rpc.ts";

const INVOCATION_META = "backplane/invocation_id";
const ERROR_META = "backplane/error";
/** Errors of a server that are meant for the client's program and not for its model. */
const CLIENT_ERRORS: ReadonlySet<number> = new Set([
  MCP_ERRORS.missing_capability,
  MCP_ERRORS.url_elicitation_required,
]);

/** Throws an error that is meant for the client's program. */
export function callResult({ id, error, tool_result }: Invocation): JsonObject {
  const _meta: JsonObject = { [INVOCATION_META]: id };
  if (error !== null) {
    const code = Number(error.details?.plugin_code);
    if (CLIENT_ERRORS.has(code)) throw new McpError(code, error.message, error.details?.data);
    const fix = error.details?.fix;
    _meta[ERROR_META] = { code: error.code, ...(typeof fix === "string" ? { fix } : {}) };
    return { content: [{ type: "text", text: error.message }], isError: true, _meta };
  }
  const structured = structuredContent(tool_result?.structured_output);
  const content = (tool_result?.content ?? []).map((block) => contentBlock(block as JsonObject));
  // Clients without support for structured content read the text.
  if (content.length === 0 && structured !== undefined)
    content.push({ type: "text", text: JSON.stringify(structured) });
  return {
    content,
    ...(structured === undefined ? {} : { structuredContent: structured }),
    isError: tool_result?.is_error === true,
    _meta,
  };
}

/** A refusal by the door as a result. Null: the model cannot act on it, so it becomes an error of the request. */
export function refusalResult(error: BackplaneError): JsonObject | null {
  if (!isErrorCode(error.code) || !RESULT_FAMILIES.some((family) => error.code.startsWith(family)))
    return null;
  const spec = ERROR_CODES[error.code];
  const invocation_id = error.details?.invocation_id;
  const fix = error.fix ?? spec.remedy;
  return {
    content: [{ type: "text", text: `${error.message}${issuesIn(error.details?.issues)}` }],
    isError: true,
    _meta: {
      ...(typeof invocation_id === "string" ? { [INVOCATION_META]: invocation_id } : {}),
      [ERROR_META]: { code: error.code, retryable: error.retryable ?? spec.retryable, fix },
    },
  };
}

const RESULT_FAMILIES = [
  "input.",
  "policy.",
  "approval.",
  "sandbox.",
  "binding.",
  "class.",
  "invocation.",
  "grant.",
];

/** An error of the gateway itself as a JSON-RPC error. */
export function gatewayError(error: BackplaneError): McpError {
  const code = error.code === "internal" ? MCP_ERRORS.internal_error : MCP_ERRORS.refused;
  const { retryable } = ERROR_CODES[error.code];
  const message = error.code === "internal" ? ERROR_CODES.internal.what : error.message;
  return new McpError(code, message, { code: error.code, retryable: error.retryable ?? retryable });
}

function issuesIn(issues: unknown): string {
  if (!Array.isArray(issues)) return "";
  // The message already contains the first issue.
  const lines = issues
    .slice(1)
    .flatMap((issue: unknown) =>
      isObject(issue) && typeof issue.message === "string"
        ? [
            `\n${typeof issue.path === "string" && issue.path !== "" ? issue.path : "the input"}: ${issue.message}`,
          ]
        : [],
    );
  return lines.slice(0, 20).join("");
}

/** The envelope of a kernel tool repeats the content; only its JSON data is structured content. */
function structuredContent(value: Json | undefined): JsonObject | undefined {
  if (!isObject(value)) return undefined;
  if (typeof value.ok !== "boolean" || typeof value.brief !== "string" || !isObject(value.display))
    return value;
  const { kind, data } = value.display;
  return kind === "json" && isObject(data) ? data : undefined;
}

function contentBlock(block: JsonObject): JsonObject {
  const { type } = block;
  const mimeType = block.mimeType ?? block.mime_type ?? block.media_type;
  if (type === "text" && typeof block.text === "string") return block;
  if (
    (type === "image" || type === "audio") &&
    typeof block.data === "string" &&
    typeof mimeType === "string"
  ) {
    const { mime_type: _a, media_type: _b, ...rest } = block;
    return { ...rest, mimeType };
  }
  if (type === "resource" && isObject(block.resource) && typeof block.resource.uri === "string") return block;
  if (type === "resource_link" && typeof block.uri === "string" && typeof block.name === "string")
    return block;
  return { type: "text", text: JSON.stringify(block) };
}
