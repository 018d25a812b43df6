/**
 * Who may publish what, and where: the gate before a queue. The rules of a port are laid out once, when it is made,
 * so that a publish costs one look-up; everything slow is on the path of a refusal.
 */
import {
  AGENT_SEPARATOR,
  BackplaneError,
  BRIDGE_PREFIX,
  BUS_KINDS,
  type BusKind,
  type BusKindSpec,
  extensionPrefix,
  isBusKind,
  KERNEL_SESSION,
  type PluginCategory,
} from "@backplane/contract";
import { BUS_PAYLOADS } from "@backplane/contract/schema";
import { snapshot } from "../snapshot/snapshot.ts";
import { payloadTest } from "./payload-check.ts";
import { isBridgeOf } from "./session-ids.ts";

const EXTENSIONS_KEPT = 256;
const SESSION_ID_MAX = 1_024;

interface KindRule {
  session: BusKindSpec["session"];
  /** A child session takes a user's words from the kernel alone (bus.session-ids). */
  never_in_child: boolean;
  payload: (typeof BUS_PAYLOADS)[BusKind] | null;
  fits: (payload: unknown) => boolean;
}

const TESTS = new Map(Object.entries(BUS_PAYLOADS).map(([kind, schema]) => [kind, payloadTest(schema)]));
const anything = () => true;

export interface Publisher {
  name: string;
  /** null: a part of the kernel. */
  category: PluginCategory | null;
  prefixes: readonly string[];
}

export class PublishRules {
  readonly #who: Publisher;
  readonly #kinds = new Map<string, KindRule>();
  #extensions = 0;

  constructor(who: Publisher) {
    this.#who = who;
    for (const [kind, spec] of Object.entries(BUS_KINDS) as [BusKind, BusKindSpec][]) {
      if (!mayPublish(who.category, kind, spec)) continue;
      const never_in_child = who.category !== null && kind.startsWith("user.");
      const fits = TESTS.get(kind)!;
      this.#kinds.set(kind, { session: spec.session, never_in_child, payload: BUS_PAYLOADS[kind], fits });
    }
  }

  /** The checked payload, as an own copy. Throws when this port may not publish this here. */
  check(kind: string, payload: unknown, session_id: string): Readonly<Record<string, unknown>> {
    const rule = this.#kinds.get(kind) ?? this.#extension(kind);
    this.#checkSession(rule, kind, session_id);
    const kept = snapshot(payload);
    if (rule.payload !== null && !rule.fits(kept)) {
      const parsed = rule.payload.safeParse(kept);
      if (!parsed.success) {
        throw new BackplaneError("request.invalid", `the payload of ${kind} does not have its shape`, {
          details: {
            issues: parsed.error.issues.map(({ path, message }) => ({ path: path.join("."), message })),
          },
        });
      }
    }
    return kept;
  }

  #extension(kind: string): KindRule {
    const prefix = extensionPrefix(kind);
    if (prefix === null) throw this.#unknown(kind);
    if (!this.#who.prefixes.includes(prefix)) {
      throw deny(`${this.#who.name} may not publish ${kind}: x.${prefix}.* belongs to another plugin`);
    }
    // A part of the kernel speaks where the kernel does.
    const session = this.#who.category === null ? "any" : "own";
    const rule: KindRule = { session, never_in_child: false, payload: null, fits: anything };
    // Bounded, since a plugin can make up as many kinds as it likes.
    if (this.#extensions++ < EXTENSIONS_KEPT) this.#kinds.set(kind, rule);
    return rule;
  }

  #checkSession(rule: KindRule, kind: string, session_id: string): void {
    if (typeof session_id !== "string" || session_id.length === 0 || session_id.length > SESSION_ID_MAX) {
      throw new BackplaneError(
        "request.invalid",
        `${kind} needs a session_id of 1 to ${SESSION_ID_MAX} characters`,
      );
    }
    if (session_id === KERNEL_SESSION) {
      if (rule.session === "own") throw deny(`${kind} does not ride the session "${KERNEL_SESSION}"`);
      return;
    }
    if (rule.session === "kernel") throw deny(`${kind} rides only the session "${KERNEL_SESSION}"`);
    if (this.#who.category === null) return;
    if (session_id.startsWith(BRIDGE_PREFIX) && !isBridgeOf(this.#who.name, session_id)) {
      throw deny(
        `${this.#who.name} may not publish on ${session_id}: it is another plugin's private session`,
      );
    }
    if (rule.never_in_child && session_id.includes(AGENT_SEPARATOR)) {
      throw deny(`${kind} on a sub-agent's session comes from the kernel alone`);
    }
  }

  #unknown(kind: string): BackplaneError {
    if (isBusKind(kind)) {
      const { name, category } = this.#who;
      return deny(`${name} may not publish ${kind}: that is not a kind of category ${category ?? "kernel"}`);
    }
    return new BackplaneError("request.invalid", `there is no public event kind "${kind}"`, {
      fix: "Use a kind of the catalog, or x.<your plugin>.<kind> for an event of your own.",
    });
  }
}

/** Skills publish what some plugin category publishes; an approval's answer comes from an adapter alone. */
function mayPublish(category: PluginCategory | null, kind: BusKind, spec: BusKindSpec): boolean {
  if (category === null) return true;
  if (category === "skill") return spec.from !== "kernel" && kind !== "approval.response";
  return spec.from === category;
}

function deny(message: string): BackplaneError {
  return new BackplaneError("policy.denied", message, {
    fix: "Publish only the kinds of the plugin's category, on its conversations' sessions.",
  });
}
