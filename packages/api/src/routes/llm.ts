/** The model endpoints in the protocols of OpenAI and Anthropic, and the records of their calls. */
import { BackplaneError, definedFields, type JsonObject } from "@backplane/contract";
import { JsonObjectSchema, LlmCallSchema } from "@backplane/contract/schema";
import type { LlmModel } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route, type RouteAuth } from "../http/route.ts";
import type { EndpointRequest } from "../llm/answer-call.ts";
import { chat } from "../llm/chat.ts";
import { messages } from "../llm/messages.ts";
import type { EndpointProtocol } from "../llm/protocol.ts";
import { responses } from "../llm/responses.ts";
import { IdParams, listSchema, nameSchema, PageQuery, splitPage } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

/** Vendors accept 32 MB; images are part of the body. */
const BODY_BYTES = 32 * 1024 * 1024;

const INVOKE = { scope: "llm:invoke", delegated: "llm:invoke", x_api_key: true } as const satisfies RouteAuth;

const model = z.string().min(1).max(512).describe("`INSTANCE/MODEL`, or the name of a model alone.");
const flag = z.boolean().nullish();
const list = (description: string) => z.array(z.looseObject({})).nullish().describe(description);

/** Only these fields are validated. A provider with the same protocol gets all fields. */
const ChatRequestSchema = z.looseObject({
  model,
  messages: z.array(z.looseObject({ role: z.string() })).min(1),
  stream: flag,
  tools: list("Functions and free-text tools."),
  max_tokens: z.number().nullish(),
  max_completion_tokens: z.number().nullish(),
});
const ResponsesRequestSchema = z.looseObject({
  model,
  input: z.union([z.string(), z.array(z.looseObject({}))]),
  instructions: z.string().nullish(),
  stream: flag,
  tools: list(
    "Functions and free-text tools; tools that the vendor runs are available only from that vendor.",
  ),
  store: flag.describe("Responses are not stored; true is refused."),
  previous_response_id: z.string().nullish().describe("Refused, because responses are not stored."),
  max_output_tokens: z.number().nullish(),
});
const MessageSchema = z.looseObject({
  role: z.string(),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]),
});
const CountTokensRequestSchema = z.looseObject({
  model,
  messages: z.array(MessageSchema).min(1),
  system: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]).nullish(),
  tools: list("Tools with an input_schema; tools that the vendor runs are available only from that vendor."),
});
const MessagesRequestSchema = CountTokensRequestSchema.extend({
  max_tokens: z.int().min(1),
  stream: flag,
});

const OpenAiErrorSchema = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
  }),
});
const AnthropicErrorSchema = z.object({
  type: z.literal("error"),
  error: z.object({ type: z.string(), message: z.string() }),
});

const DESCRIPTION =
  "With `stream: true` the response is a stream of server-sent events in the vendor's format. Errors have the vendor's " +
  "format too. The header `backplane-llm-call` identifies the record of the call. See docs/llm-endpoints.md.";

/** One shape for the clients of both vendors. */
const ModelSchema = z.object({
  id: z.string(),
  object: z.literal("model"),
  type: z.literal("model"),
  created: z.int(),
  created_at: z.string(),
  owned_by: z.string(),
  display_name: z.string(),
});

export function llmRoutes({ kernel, endpoint_calls }: RouteDeps): Route[] {
  const answer =
    (protocol: EndpointProtocol) => (context: Omit<EndpointRequest, "body"> & { body: unknown }) =>
      endpoint_calls.answer(protocol, { ...context, body: context.body as JsonObject });
  return [
    defineRoute({
      method: "POST",
      path: "/v1/chat/completions",
      operation_id: "createChatCompletion",
      summary: "Call a model with OpenAI's Chat Completions protocol",
      description: DESCRIPTION,
      tag: "Models",
      auth: INVOKE,
      body: ChatRequestSchema,
      body_bytes: BODY_BYTES,
      error_schema: OpenAiErrorSchema,
      responses: { 200: { description: "The completion, or a stream of chunks.", schema: JsonObjectSchema } },
      handler: answer(chat),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/responses",
      operation_id: "createResponse",
      summary: "Call a model with OpenAI's Responses protocol",
      description: DESCRIPTION,
      tag: "Models",
      auth: INVOKE,
      body: ResponsesRequestSchema,
      body_bytes: BODY_BYTES,
      error_schema: OpenAiErrorSchema,
      responses: { 200: { description: "The response, or a stream of events.", schema: JsonObjectSchema } },
      handler: answer(responses),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/messages",
      operation_id: "createMessage",
      summary: "Call a model with Anthropic's Messages protocol",
      description: DESCRIPTION,
      tag: "Models",
      auth: INVOKE,
      body: MessagesRequestSchema,
      body_bytes: BODY_BYTES,
      error_schema: AnthropicErrorSchema,
      responses: { 200: { description: "The message, or a stream of events.", schema: JsonObjectSchema } },
      handler: answer(messages),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/messages/count_tokens",
      operation_id: "countMessageTokens",
      summary: "Count the input tokens of a message",
      description: "Anthropic's provider counts the tokens; for other providers the number is an estimate.",
      tag: "Models",
      auth: INVOKE,
      body: CountTokensRequestSchema,
      body_bytes: BODY_BYTES,
      error_schema: AnthropicErrorSchema,
      responses: { 200: { description: "The count.", schema: z.object({ input_tokens: z.int() }) } },
      async handler(context) {
        const endpoint_request = { ...context, body: context.body as JsonObject };
        return {
          status: 200,
          json: { input_tokens: await endpoint_calls.countTokens(messages, endpoint_request) },
        };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/models",
      operation_id: "listModels",
      summary: "List the models that the caller may use",
      description: "The items have the fields of both OpenAI and Anthropic.",
      tag: "Models",
      auth: INVOKE,
      error_schema: OpenAiErrorSchema,
      responses: {
        200: {
          description: "All models.",
          schema: z.object({
            object: z.literal("list"),
            data: z.array(ModelSchema),
            has_more: z.literal(false),
            first_id: z.string().nullable(),
            last_id: z.string().nullable(),
          }),
        },
      },
      async handler({ caller }) {
        const data = (await kernel.llm.listModels(caller)).map(toModel);
        const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
        return { status: 200, json: { object: "list", data, has_more: false, first_id, last_id } };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/models/{id}",
      operation_id: "getModel",
      summary: "Read one model",
      tag: "Models",
      auth: INVOKE,
      params: z.object({ id: nameSchema(512).min(1).describe("With the slash encoded as %2F.") }),
      error_schema: OpenAiErrorSchema,
      responses: { 200: { description: "The model.", schema: ModelSchema } },
      async handler({ caller, params }) {
        const all = await kernel.llm.listModels(caller);
        const model = all.find(({ id }) => id === params.id) ?? all.find((each) => each.model === params.id);
        if (model === undefined)
          throw new BackplaneError(
            "llm.model_not_found",
            `The model ${JSON.stringify(params.id)} is not available.`,
          );
        return { status: 200, json: toModel(model) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/llm-calls",
      operation_id: "listLlmCalls",
      summary: "List calls to the model endpoints",
      tag: "Models",
      auth: { scope: "llm:read" },
      query: PageQuery.extend({
        run_id: nameSchema(256).optional(),
        invocation_id: nameSchema(256).optional().describe("The call whose delegated token was used."),
      }),
      responses: { 200: { description: "A page, newest first.", schema: listSchema(LlmCallSchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await kernel.llm.list(caller, definedFields(filter), page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/llm-calls/{id}",
      operation_id: "getLlmCall",
      summary: "Read the record of a call to a model endpoint",
      tag: "Models",
      auth: { scope: "llm:read" },
      params: IdParams,
      responses: { 200: { description: "The record.", schema: LlmCallSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.llm.get(caller, params.id),
      }),
    }),
  ];
}

/** The provider does not report when a model was released. */
const CREATED = 0;

function toModel({ id, provider, label, model }: LlmModel) {
  return {
    id,
    object: "model",
    type: "model",
    created: CREATED,
    created_at: new Date(CREATED).toISOString(),
    owned_by: provider,
    display_name: label === provider ? model : `${model} (${label})`,
  };
}
