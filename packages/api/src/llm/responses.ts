/** OpenAI's Responses API. No response is stored: a client sends the whole conversation with every request. */
import {
  type ChatMessage,
  isObject,
  type Json,
  type JsonObject,
  type LlmOptions,
  type LlmTool,
  type ThinkingBlock,
  type ToolCallRequest,
} from "@backplane/contract";
import { openAiError } from "./openai-error.ts";
import type { EndpointProtocol } from "./protocol.ts";
import {
  freeTextTool,
  imageBlock,
  listOf,
  mediaBlock,
  omitNullFields,
  readBoolean,
  readNumber,
  textOr,
  toArguments,
  unsupported,
} from "./read-request.ts";
import { buildAnswerBody, joinName, ResponseStream } from "./response-stream.ts";
import { isWrappedSeal, unwrapSeal } from "./seal.ts";

export const responses: EndpointProtocol = {
  read(body, headers) {
    rejectStoredState(body);
    const { input } = body;
    const items = typeof input === "string" ? [{ role: "user", content: input }] : listOf(input);
    const instructions: ChatMessage[] =
      typeof body.instructions === "string" ? [{ role: "system", content: body.instructions }] : [];
    return {
      protocol: "responses",
      model: textOr(body.model),
      stream: body.stream === true,
      messages: [...instructions, ...toMessages(items)],
      tools: listOf(body.tools).flatMap(toTool),
      options: toOptions(body),
      body: Array.isArray(input) ? { ...body, input: items.filter(isAcceptedByVendor) } : body,
      headers,
    };
  },
  stream: (context) => new ResponseStream(context),
  answerBody: buildAnswerBody,
  errorBody: openAiError,
};

/** Responses and conversations stored at the vendor would be shared by everyone who uses the same provider instance. */
function rejectStoredState({
  store,
  previous_response_id,
  conversation,
  background,
  prompt,
}: JsonObject): void {
  const fix = "Send the whole conversation in input, with store: false.";
  if (store === true) throw unsupported("store", `Responses are not stored. ${fix}`);
  if (previous_response_id != null)
    throw unsupported(
      "previous_response_id",
      `Responses are not stored, so none can be continued by its id. ${fix}`,
    );
  if (conversation != null) throw unsupported("conversation", `Conversations are not stored. ${fix}`);
  if (background === true)
    throw unsupported("background", "Responses in the background are not supported. Set stream: true.");
  if (prompt != null)
    throw unsupported("prompt", "Stored prompts are not supported. Send instructions and input.");
}

/** The vendor refuses reasoning that another vendor's model wrote. */
function isAcceptedByVendor({ type, encrypted_content }: JsonObject): boolean {
  return type !== "reasoning" || !isWrappedSeal(encrypted_content);
}

type AssistantMessage = Extract<ChatMessage, { role: "assistant" }>;

/** Reasoning, text and calls of one step are separate items, which become one assistant message. */
function toMessages(items: readonly JsonObject[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  const assistant = (isOpen: (last: AssistantMessage) => boolean): AssistantMessage => {
    const last = messages.at(-1);
    if (last?.role === "assistant" && isOpen(last)) return last;
    const next: AssistantMessage = { role: "assistant", content: "" };
    messages.push(next);
    return next;
  };
  for (const item of items) {
    const { type = "message", role } = item;
    if (type === "message" && role === "assistant") {
      assistant(({ content, tool_calls }) => content === "" && tool_calls === undefined).content = toContent(
        item.content,
      );
    } else if (type === "message") {
      const content = toContent(item.content);
      messages.push(role === "user" ? { role, content } : { role: "system", content });
    } else if (type === "reasoning") {
      const step = assistant(({ content, tool_calls }) => content === "" && tool_calls === undefined);
      step.thinking = [...(step.thinking ?? []), toThinking(item)];
    } else if (type === "function_call" || type === "custom_tool_call") {
      const step = assistant(() => true);
      step.tool_calls = [...(step.tool_calls ?? []), toCall(item)];
    } else if (type === "function_call_output" || type === "custom_tool_call_output") {
      messages.push({ role: "tool", tool_call_id: textOr(item.call_id), content: toContent(item.output) });
    } else if (type === "item_reference") {
      throw unsupported("input", "Items are not stored, so input cannot refer to one. Set store: false.");
    }
  }
  return messages;
}

function toCall({ call_id, namespace, name, arguments: args, input }: JsonObject): ToolCallRequest {
  const full_name = joinName(textOr(namespace), textOr(name));
  return { id: textOr(call_id), name: full_name, args: toArguments(args ?? { input: textOr(input) }) };
}

function toThinking({ id, summary, content, encrypted_content }: JsonObject): ThinkingBlock {
  const text = [...listOf(summary), ...listOf(content)].map((part) => textOr(part.text)).join("\n");
  if (typeof encrypted_content !== "string") return { text };
  const seal = isWrappedSeal(encrypted_content)
    ? encrypted_content
    : JSON.stringify({ id: textOr(id), encrypted_content });
  return { text, seal: unwrapSeal(seal, "openai:") };
}

function toContent(content: Json | undefined): Json {
  if (!Array.isArray(content)) return content ?? "";
  return listOf(content).map((part): JsonObject => {
    const { type } = part;
    if (type === "input_text" || type === "output_text" || type === "text")
      return { type: "text", text: textOr(part.text) };
    if (type === "refusal") return { type: "text", text: textOr(part.refusal) };
    if (type === "input_image" && typeof part.image_url === "string") return imageBlock(part.image_url);
    return (
      mediaBlock(part) ?? { type: "text", text: `[${textOr(type, "part")} that this model cannot read]` }
    );
  });
}

/** Omits tools that the vendor runs itself: only the vendor has them, and it gets the request untranslated. */
function toTool(tool: JsonObject): LlmTool[] {
  const [name, description] = [textOr(tool.name), textOr(tool.description)];
  if (tool.type === "namespace")
    return listOf(tool.tools).flatMap((each) => toTool({ ...each, name: joinName(name, textOr(each.name)) }));
  if (tool.type === "custom") return [freeTextTool(name, description)];
  if (tool.type !== "function") return [];
  const parameters = isObject(tool.parameters) ? tool.parameters : { type: "object", properties: {} };
  return [{ name, description, parameters }];
}

function toOptions(body: JsonObject): LlmOptions {
  const { reasoning, text, tool_choice } = body;
  return omitNullFields({
    max_tokens: readNumber(body.max_output_tokens),
    temperature: readNumber(body.temperature),
    top_p: readNumber(body.top_p),
    tool_choice: toChoice(tool_choice),
    parallel_tool_calls: readBoolean(body.parallel_tool_calls),
    reasoning_effort: isObject(reasoning) ? textOr(reasoning.effort) || undefined : undefined,
    json_output: toJsonOutput(isObject(text) ? text.format : undefined),
  });
}

function toChoice(choice: Json | undefined): LlmOptions["tool_choice"] {
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  return isObject(choice) && typeof choice.name === "string" ? { name: choice.name } : undefined;
}

function toJsonOutput(format: Json | undefined): LlmOptions["json_output"] {
  if (!isObject(format)) return undefined;
  if (format.type === "json_object") return { name: "answer" };
  if (format.type !== "json_schema") return undefined;
  return {
    name: textOr(format.name, "answer"),
    ...(isObject(format.schema) ? { schema: format.schema } : {}),
    ...(typeof format.strict === "boolean" ? { strict: format.strict } : {}),
  };
}
