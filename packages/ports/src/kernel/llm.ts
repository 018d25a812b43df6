/** The model endpoints: calls to provider instances on behalf of API clients. */
import type {
  ChatMessage,
  JsonObject,
  LlmCall,
  LlmOptions,
  LlmPart,
  LlmProtocol,
  LlmTool,
  TokenUsage,
} from "@backplane/contract";
import type { Caller, Page, PageOf } from "../scope/scope.ts";

/** A client's request: its original body, and its content in the form that all providers share. */
export interface LlmEndpointRequest {
  protocol: LlmProtocol;
  /** `INSTANCE/MODEL`, or the name of a model that one of the instances offers. */
  model: string;
  stream: boolean;
  messages: ChatMessage[];
  tools: LlmTool[];
  options: LlmOptions;
  body: JsonObject;
  headers: Record<string, string>;
}

/**
 * The answer in parts. Either all parts but the last are `native` events in the client's protocol, or none is. The last
 * part is `end`.
 */
export type LlmEndpointPart =
  | Exclude<LlmPart, { type: "usage" | "stop" }>
  | { type: "end"; usage: TokenUsage; stop_reason: string | null; model: string };

export interface LlmModel {
  /** `INSTANCE/MODEL` */
  id: string;
  provider: string;
  model: string;
  label: string;
}

export interface LlmEndpoints {
  /** The models that the caller may use. */
  listModels(caller: Caller): Promise<LlmModel[]>;
  /**
   * Resolves when the record of the call is on disk; the provider is called after that. Aborting the signal cancels the
   * call at the provider. Throws `llm.model_not_found` or `llm.budget_exceeded`; the iteration throws `llm.failed`.
   */
  call(
    caller: Caller,
    request: LlmEndpointRequest,
    signal: AbortSignal,
  ): Promise<{ id: string; parts: AsyncIterable<LlmEndpointPart> }>;
  /** The number of input tokens: counted by the provider if it supports that, otherwise estimated. */
  countTokens(caller: Caller, request: LlmEndpointRequest, signal: AbortSignal): Promise<number>;
  get(caller: Caller, id: string): Promise<LlmCall>;
  list(
    caller: Caller,
    filter: { run_id?: string; invocation_id?: string },
    page: Page,
  ): Promise<PageOf<LlmCall>>;
}
