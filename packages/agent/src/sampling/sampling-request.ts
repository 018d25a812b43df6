/**
 * Parses `sampling/createMessage` from an MCP server into a request for the gateway's model. Only text is
 * supported, because every provider accepts text. Tools and the context of other servers are not supported.
 * Other parameters are refused or ignored, as the protocol allows.
 */
import { BackplaneError, COGNITION_LIMITS, isObject, type Json, type JsonObject } from "@backplane/contract";

export interface SamplingRequest {
  system: string | null;
  messages: { role: "user" | "assistant"; text: string }[];
  max_tokens: number;
  temperature: number | null;
  stop: string[];
}

const MAX_MESSAGES = 200;
const MAX_STOP_SEQUENCES = 16;

/** Throws request.invalid. `token_limit` is the binding's limit of tokens for one request. */
export function parseSamplingRequest(params: JsonObject, token_limit: number): SamplingRequest {
  const { messages, systemPrompt, maxTokens, temperature, stopSequences, tools } = params;
  if (tools !== undefined) throw invalid("tools are not supported");
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MAX_MESSAGES)
    throw invalid(`messages must be a list of 1 to ${MAX_MESSAGES} items`);
  if (typeof maxTokens !== "number" || !Number.isInteger(maxTokens) || maxTokens < 1)
    throw invalid("maxTokens must be a whole number of at least 1");
  if (systemPrompt !== undefined && typeof systemPrompt !== "string")
    throw invalid("systemPrompt must be a string");
  const parsed_messages = messages.map(readMessage);
  const system = systemPrompt ?? null;
  const size = parsed_messages.reduce((sum, { text }) => sum + text.length, system?.length ?? 0);
  if (size > COGNITION_LIMITS.prompt_chars)
    throw invalid(`the texts together have more than ${COGNITION_LIMITS.prompt_chars} characters`);
  return {
    system,
    messages: parsed_messages,
    max_tokens: Math.min(maxTokens, token_limit),
    temperature: typeof temperature === "number" && Number.isFinite(temperature) ? temperature : null,
    stop: Array.isArray(stopSequences)
      ? stopSequences.filter((sequence) => typeof sequence === "string").slice(0, MAX_STOP_SEQUENCES)
      : [],
  };
}

function readMessage(message: Json): SamplingRequest["messages"][number] {
  const { role, content } = isObject(message) ? message : {};
  if (role !== "user" && role !== "assistant")
    throw invalid("the role of a message must be user or assistant");
  const blocks = Array.isArray(content) ? content : [content];
  const texts = blocks.map((block) => {
    if (isObject(block) && block.type === "text" && typeof block.text === "string") return block.text;
    throw invalid("only text content is supported");
  });
  return { role, text: texts.join("\n") };
}

function invalid(problem: string): BackplaneError {
  return new BackplaneError("request.invalid", `The sampling request is invalid: ${problem}.`);
}
