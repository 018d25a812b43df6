/**
 * In the stateless revision a server reports changes only on a `subscriptions/listen` request that stays open.
 * At most one such request is open; watching another resource replaces it.
 */
import { BackplaneError, isObject, type Json, type JsonObject } from "@backplane/contract";
import type { PendingRequest } from "./rpc-channel.ts";

export interface SubscriptionDeps {
  send(pending: PendingRequest, params: JsonObject): number;
  withdraw(id: number): void;
  later(run: () => void): void;
  isClosed(): boolean;
}

const MAX_WATCHED = 1_000;
const MAX_SUBSCRIBED = 10_000;

export class McpSubscription {
  readonly #deps: SubscriptionDeps;
  readonly #watched = new Set<string>();
  #lists: JsonObject = {};
  #id = 0;

  constructor(deps: SubscriptionDeps) {
    this.#deps = deps;
  }

  /** Whether a client watches any resource. */
  get isWatching(): boolean {
    return this.#watched.size > 0;
  }

  begin(capabilities: JsonObject): void {
    const changes = (name: string) => isObject(capabilities[name]) && capabilities[name].listChanged === true;
    this.#lists = {
      ...(changes("tools") ? { toolsListChanged: true } : {}),
      ...(changes("prompts") ? { promptsListChanged: true } : {}),
      ...(changes("resources") ? { resourcesListChanged: true } : {}),
    };
    this.#listen();
  }

  setWatched(uri: Json | undefined, watched: boolean): JsonObject {
    if (typeof uri !== "string") throw new BackplaneError("plugin_failed", "params.uri must be a string.");
    if (!watched) this.#watched.delete(uri);
    else if (this.#watched.size < MAX_WATCHED) this.#watched.add(uri);
    else throw new BackplaneError("plugin_failed", `At most ${MAX_WATCHED} resources can be watched.`);
    this.#listen();
    return {};
  }

  #listen(): void {
    if (this.#deps.isClosed()) return;
    if (this.#id !== 0) this.#deps.withdraw(this.#id);
    this.#id = 0;
    const watched: JsonObject = this.#watched.size === 0 ? {} : { resourceSubscriptions: [...this.#watched] };
    const notifications = { ...this.#lists, ...watched };
    if (Object.keys(notifications).length === 0) return;
    const onEnd = () => {
      this.#id = 0;
    };
    this.#id = this.#deps.send(
      {
        method: "subscriptions/listen",
        answered: onEnd,
        refused: onEnd,
        lost: () => {
          onEnd();
          this.#deps.later(() => {
            if (this.#id === 0) this.#listen();
          });
        },
      },
      { notifications },
    );
  }
}

/**
 * Resources that clients subscribed to on a server of a revision with sessions. The server forgets the subscriptions
 * with its session, so they are made again in a new one.
 */
export class SessionSubscriptions {
  readonly #uris = new Set<string>();

  get isEmpty(): boolean {
    return this.#uris.size === 0;
  }

  /** Called for each answered request that names a resource; only subscribe and unsubscribe requests count. */
  remember(method: string, uri: string): void {
    if (method === "resources/unsubscribe") this.#uris.delete(uri);
    if (method === "resources/subscribe" && this.#uris.size < MAX_SUBSCRIBED) this.#uris.add(uri);
  }

  resubscribe(subscribe: (uri: string) => Promise<unknown>): void {
    for (const uri of this.#uris) {
      // A resource that no longer exists must not fail the session.
      subscribe(uri).catch(() => this.#uris.delete(uri));
    }
  }
}
