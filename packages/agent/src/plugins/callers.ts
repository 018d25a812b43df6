/** Short-lived names for whom a plugin acts. A name is worth nothing to another plugin, or once its call has ended. */
import { randomBytes } from "node:crypto";
import { BackplaneError, IdTable } from "@backplane/contract";
import type { Callers, ServiceWho } from "./plugins-port.ts";

const TOKENS_AT_ONCE = 64;
const TOKEN_BYTES = 18;

export class MintedCallers implements Callers {
  readonly #minted = new IdTable<ServiceWho>();
  #spare: string[] = [];

  get size(): number {
    return this.#minted.size;
  }

  mint(who: ServiceWho): { as: string; end(): void } {
    const as = this.#token();
    this.#minted.add(as, who);
    return { as, end: () => void this.#minted.delete(as) };
  }

  resolve(plugin: string, as: string | undefined): ServiceWho {
    if (as === undefined) return { plugin, caller: null, call: null };
    const who = this.#minted.get(as);
    if (who !== undefined && who.plugin === plugin) return who;
    throw new BackplaneError("auth.invalid", "this `as` is unknown, or its request or call has ended", {
      fix: "Pass the `as` of the request or call that the plugin is serving, before it is answered.",
    });
  }

  /** Made in batches: one is needed for each call of a tool. */
  #token(): string {
    if (this.#spare.length === 0) {
      const bytes = randomBytes(TOKENS_AT_ONCE * TOKEN_BYTES);
      for (let at = 0; at < bytes.length; at += TOKEN_BYTES) {
        this.#spare.push(`as_${bytes.toString("base64url", at, at + TOKEN_BYTES)}`);
      }
    }
    return this.#spare.pop()!;
  }
}
