/**
 * An ended invocation as a `tools/call` result. What came of running a tool, or of a person's or a policy's no, is a
 * result with `isError`, so that the model sees it; a call of nothing is an error of the protocol.
 */
import {
  type BackplaneError,
  ERROR_CODES,
  type Invocation,
  isErrorCode,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import { isObject, RPC, RpcError } from "./json-rpc.ts";

const INVOCATION_META = "backplane/invocation_id";
const ERROR_META = "backplane/error";
const FOR_CLIENTS: ReadonlySet<number> = new Set([RPC.missing_capability, RPC.url_elicitation_required]);

/** Throws what a server's answer means to the client's program and not to its model. */
export function callResult({ id, error, tool_result }: Invocation): JsonObject {
  const _meta: JsonObject = { [INVOCATION_META]: id };
  if (error !== null) {
    const code = Number(error.details?.plugin_code);
    if (FOR_CLIENTS.has(code)) throw new RpcError(code, error.message, error.details?.data);
    const fix = error.details?.fix;
    _meta[ERROR_META] = { code: error.code, ...(typeof fix === "string" ? { fix } : {}) };
    return { content: [{ type: "text", text: error.message }], isError: true, _meta };
  }
  const structured = structuredContent(tool_result?.structured_output);
  const content = (tool_result?.content ?? []).map((block) => contentBlock(block as JsonObject));
  // Clients that do not know structured content read the text.
  if (content.length === 0 && structured !== undefined)
    content.push({ type: "text", text: JSON.stringify(structured) });
  return {
    content,
    ...(structured === undefined ? {} : { structuredContent: structured }),
    isError: tool_result?.is_error === true,
    _meta,
  };
}

/** A refusal of the door. Null: it is not the tool's to tell, and ends the request itself. */
export function refusedResult(error: BackplaneError): JsonObject | null {
  if (!isErrorCode(error.code) || !TOLD.some((family) => error.code.startsWith(family))) return null;
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

const TOLD = ["input.", "policy.", "approval.", "sandbox.", "binding.", "class.", "invocation.", "grant."];

/** For refusals that are the gateway's own. */
export function gatewayRefusal(error: BackplaneError): RpcError {
  const code = error.code === "internal" ? RPC.internal : RPC.refused;
  const { retryable } = ERROR_CODES[error.code];
  const message = error.code === "internal" ? ERROR_CODES.internal.what : error.message;
  return new RpcError(code, message, { code: error.code, retryable: error.retryable ?? retryable });
}

function issuesIn(issues: unknown): string {
  if (!Array.isArray(issues)) return "";
  // The message is the first one already.
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

/** A kernel tool's envelope says the content again; only data in it is structure. */
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
