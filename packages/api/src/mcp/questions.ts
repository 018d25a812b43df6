/**
 * What a plugin asks of the client that called it, while one request is under way: each question waits under a key until
 * the client answers it. A question that the client cannot take is not put to it; one that is still open when the client
 * is gone gets the gateway's own answer.
 */
import type { Json, JsonObject } from "@backplane/contract";
import { type Ask, unheard } from "@backplane/kernel";
import { isObject, RPC, RpcError } from "./json-rpc.ts";

export interface Question {
  key: string;
  method: string;
  params: JsonObject;
}

interface Waiting extends Question {
  resolve(answer: Json): void;
  reject(error: Error): void;
}

export class Questions {
  readonly #capabilities: JsonObject;
  /** Answers that came with the request, before anything was asked. */
  readonly #given: Map<string, JsonObject> | null;
  /** Made for the first: most calls ask nothing. */
  #waiting: Map<string, Waiting> | null = null;
  #asked = 0;
  /** Null: nobody listens now. */
  #told: ((question: Question) => void) | null = null;
  #closed = false;

  constructor(capabilities: JsonObject, given?: JsonObject) {
    this.#capabilities = capabilities;
    this.#given = given === undefined ? null : new Map(Object.entries(given) as [string, JsonObject][]);
  }

  readonly ask: Ask = (method, params, key) => {
    if (this.#closed || !takes(this.#capabilities, method, params)) return null;
    const name = this.#nameOf(key);
    const given = this.#given?.get(name);
    if (given !== undefined) {
      this.#given?.delete(name);
      return Promise.resolve(given);
    }
    return new Promise((resolve, reject) => {
      const question: Waiting = { key: name, method, params, resolve, reject };
      this.#waiting ??= new Map();
      this.#waiting.set(name, question);
      this.#told?.(question);
    });
  };

  /** The client takes questions at all. */
  get possible(): boolean {
    const { elicitation, sampling, roots } = this.#capabilities;
    return !this.#closed && (elicitation !== undefined || sampling !== undefined || roots !== undefined);
  }

  get open(): readonly Question[] {
    return this.#waiting === null ? [] : [...this.#waiting.values()];
  }

  /** Who puts them to the client from now on; at once for those that wait. */
  listen(told: ((question: Question) => void) | null): void {
    this.#told = told;
    if (told !== null) for (const question of this.open) told(question);
  }

  /** False: nothing is asked under this key. */
  answer(key: string, answer: JsonObject): boolean {
    const question = this.#take(key);
    question?.resolve(answer);
    return question !== undefined;
  }

  refuse(key: string, why: string): void {
    this.#take(key)?.reject(new RpcError(RPC.refused, why));
  }

  /** The client is gone, or the call is over. */
  close(): void {
    this.#closed = true;
    this.#told = null;
    if (this.#waiting === null) return;
    for (const question of this.#waiting.values())
      unheard(question.method).then(
        (answer) => question.resolve(answer),
        (error: Error) => question.reject(error),
      );
    this.#waiting.clear();
  }

  #take(key: string): Waiting | undefined {
    const question = this.#waiting?.get(key);
    this.#waiting?.delete(key);
    return question;
  }

  /** The plugin's own name of it, as long as that is free. */
  #nameOf(key: string | undefined): string {
    this.#asked++;
    return key === undefined || this.#waiting?.has(key) === true ? `question_${this.#asked}` : key;
  }
}

/** Whether a client of these capabilities takes this question. */
function takes(capabilities: JsonObject, method: string, params: JsonObject): boolean {
  const { elicitation, sampling, roots } = capabilities;
  switch (method) {
    case "elicitation/create": {
      if (!isObject(elicitation)) return false;
      if (params.mode === "url") return isObject(elicitation.url);
      // Before there were two modes, an empty object meant forms.
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

/** `inputResponses` of the stateless revision. Throws for what is no answer. */
export function readResponses(value: unknown): JsonObject {
  if (value === undefined) return {};
  if (!isObject(value)) throw new RpcError(RPC.invalid_params, "params.inputResponses must be an object");
  for (const [key, answer] of Object.entries(value))
    if (!isObject(answer))
      throw new RpcError(RPC.invalid_params, `params.inputResponses.${key.slice(0, 64)} must be an object`);
  return value;
}
