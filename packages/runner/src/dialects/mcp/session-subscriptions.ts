/**
 * Resources that a server of a revision with sessions was subscribed to. It forgets them with the session, so a new
 * session is told again.
 */
const MAX_SUBSCRIBED = 10_000;

export class SessionSubscriptions {
  readonly #uris = new Set<string>();

  /** Any request that was answered; those that subscribe or end it are kept in mind. */
  remember(method: string, uri: string): void {
    if (method === "resources/unsubscribe") this.#uris.delete(uri);
    if (method === "resources/subscribe" && this.#uris.size < MAX_SUBSCRIBED) this.#uris.add(uri);
  }

  tellAgain(subscribe: (uri: string) => Promise<unknown>): void {
    for (const uri of this.#uris) {
      // One that is not there any more is not worth the session.
      subscribe(uri).catch(() => this.#uris.delete(uri));
    }
  }
}
