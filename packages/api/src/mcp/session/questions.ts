/**
 * Requests from a plugin to the client that called it, such as elicitation and sampling, and the gateway's own
 * questions about approvals. Each is pending under a key until the client answers it. A question that the client does
 * not support is not sent. A plugin's question that is pending when the client disconnects or the call ends gets the
 * gateway's default answer.
 */
import { isObject, type Json, type JsonObject, MCP_ERRORS } from "@backplane/contract";
import { type AnswerPluginRequest, answerByDefault } from "@backplane/ports";
import { McpError } from "../protocol/json-rpc.ts";

export interface Question {
  key: string;
  method: string;
  params: JsonObject;
}

interface PendingQuestion extends Question {
  /** The answer if the questions are closed first. If absent, the plugin gets the gateway's default answer. */
  answer_on_close?: Json;
  resolve(answer: Json): void;
  reject(error: Error): void;
}

export class Questions {
  readonly #capabilities: JsonObject;
  /** Answers that the request already contained. */
  readonly #supplied: Map<string, JsonObject> | null;
  /** Created for the first question: most calls ask nothing (benchmark mcp.http-call.cpu). */
  #pending: Map<string, PendingQuestion> | null = null;
  #question_count = 0;
  #listener: ((question: Question) => void) | null = null;
  #closed = false;

  constructor(capabilities: JsonObject, supplied?: JsonObject) {
    this.#capabilities = capabilities;
    this.#supplied =
      supplied === undefined ? null : new Map(Object.entries(supplied) as [string, JsonObject][]);
  }

  readonly answerRequest: AnswerPluginRequest = (method, params, key) => {
    if (this.#closed || !supports(this.#capabilities, method, params)) return null;
    const name = this.#uniqueKey(key);
    const supplied = this.#supplied?.get(name);
    if (supplied !== undefined) {
      this.#supplied?.delete(name);
      return Promise.resolve(supplied);
    }
    return this.#addPending({ key: name, method, params });
  };

  /** Asks a question from the gateway itself. Answers that the request already contained are ignored. */
  ask(method: string, params: JsonObject, key: string, answer_on_close: Json): Promise<Json> | null {
    if (this.#closed || !supports(this.#capabilities, method, params)) return null;
    return this.#addPending({ key, method, params, answer_on_close });
  }

  /** Whether the client supports any kind of question. False after `close`. */
  get can_ask(): boolean {
    const { elicitation, sampling, roots } = this.#capabilities;
    return !this.#closed && (elicitation !== undefined || sampling !== undefined || roots !== undefined);
  }

  get pending(): readonly Question[] {
    return this.#pending === null ? [] : [...this.#pending.values()];
  }

  /** Calls the listener for every pending question and for each new one. */
  listen(listener: ((question: Question) => void) | null): void {
    this.#listener = listener;
    if (listener !== null) for (const question of this.pending) listener(question);
  }

  /** Returns false when no question is pending under this key. */
  answer(key: string, answer: JsonObject): boolean {
    const question = this.#remove(key);
    question?.resolve(answer);
    return question !== undefined;
  }

  reject(key: string, reason: string): void {
    this.#remove(key)?.reject(new McpError(MCP_ERRORS.refused, reason));
  }

  /** Must be called when the client has disconnected or the call has ended. */
  close(): void {
    this.#closed = true;
    this.#listener = null;
    if (this.#pending === null) return;
    for (const question of this.#pending.values()) {
      if (question.answer_on_close !== undefined) {
        question.resolve(question.answer_on_close);
        continue;
      }
      answerByDefault(question.method).then(
        (answer) => question.resolve(answer),
        (error: Error) => question.reject(error),
      );
    }
    this.#pending.clear();
  }

  #addPending(fields: Omit<PendingQuestion, "resolve" | "reject">): Promise<Json> {
    return new Promise((resolve, reject) => {
      const question: PendingQuestion = { ...fields, resolve, reject };
      this.#pending ??= new Map();
      this.#pending.set(question.key, question);
      this.#listener?.(question);
    });
  }

  #remove(key: string): PendingQuestion | undefined {
    const question = this.#pending?.get(key);
    this.#pending?.delete(key);
    return question;
  }

  /** The plugin's own key; a generated one if the plugin sent none, or if a question is pending under its key. */
  #uniqueKey(key: string | undefined): string {
    this.#question_count++;
    return key === undefined || this.#pending?.has(key) === true ? `question_${this.#question_count}` : key;
  }
}

function supports(capabilities: JsonObject, method: string, params: JsonObject): boolean {
  const { elicitation, sampling, roots } = capabilities;
  switch (method) {
    case "elicitation/create": {
      if (!isObject(elicitation)) return false;
      if (params.mode === "url") return isObject(elicitation.url);
      // In revisions without modes, an empty object means forms.
      return isObject(elicitation.form) || !isObject(elicitation.url);
    }
    case "sampling/createMessage":
      return isObject(sampling) && (params.tools === undefined || isObject(sampling.tools));
    case "roots/list":
      return isObject(roots);
    default:
      return false;
  }
}

/** `inputResponses` of the stateless revision. Throws when it or one of its values is not an object. */
export function readResponses(value: unknown): JsonObject {
  if (value === undefined) return {};
  if (!isObject(value))
    throw new McpError(MCP_ERRORS.invalid_params, "params.inputResponses must be an object");
  for (const [key, answer] of Object.entries(value))
    if (!isObject(answer))
      throw new McpError(
        MCP_ERRORS.invalid_params,
        `params.inputResponses.${key.slice(0, 64)} must be an object`,
      );
  return value;
}
