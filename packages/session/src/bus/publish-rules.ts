/**
 * Decides which kinds a port may publish on which sessions. The rules of a port are computed once, so that a publish
 * finds its rule with one lookup; everything slow is on the error path (benchmark bus.dispatch).
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
import { compilePayloadTest } from "./payload-check.ts";
import { isBridgeOf, isModelBridge } from "./session-ids.ts";

const MAX_EXTENSION_RULES = 256;
const SESSION_ID_MAX = 1_024;

interface KindRule {
  session: BusKindSpec["session"];
  /** Only the kernel publishes user.* on the session of a sub-agent (bus.session-ids). */
  never_in_child: boolean;
  payload: (typeof BUS_PAYLOADS)[BusKind] | null;
  matches: (payload: unknown) => boolean;
}

const PAYLOAD_TESTS = new Map(
  Object.entries(BUS_PAYLOADS).map(([kind, schema]) => [kind, compilePayloadTest(schema)]),
);
const acceptAny = () => true;

export interface Publisher {
  name: string;
  /** Null for a part of the kernel. */
  category: PluginCategory | null;
  prefixes: readonly string[];
}

export class PublishRules {
  readonly #publisher: Publisher;
  readonly #kinds = new Map<string, KindRule>();
  #extensions = 0;

  constructor(publisher: Publisher) {
    this.#publisher = publisher;
    for (const [kind, spec] of Object.entries(BUS_KINDS) as [BusKind, BusKindSpec][]) {
      if (!mayPublish(publisher.category, kind, spec)) continue;
      const never_in_child = publisher.category !== null && kind.startsWith("user.");
      const matches = PAYLOAD_TESTS.get(kind)!;
      this.#kinds.set(kind, { session: spec.session, never_in_child, payload: BUS_PAYLOADS[kind], matches });
    }
  }

  /**
   * Returns a frozen copy of the payload. Throws if the kind is unknown, if the port may not publish it on this
   * session, or if the payload does not match its schema.
   */
  check(kind: string, payload: unknown, session_id: string): Readonly<Record<string, unknown>> {
    const rule = this.#kinds.get(kind) ?? this.#extensionRule(kind);
    this.#checkSession(rule, kind, session_id);
    const copy = snapshot(payload);
    if (rule.payload !== null && !rule.matches(copy)) {
      const parsed = rule.payload.safeParse(copy);
      if (!parsed.success) {
        throw new BackplaneError("request.invalid", `The payload of ${kind} does not match its schema.`, {
          details: {
            issues: parsed.error.issues.map(({ path, message }) => ({ path: path.join("."), message })),
          },
        });
      }
    }
    return copy;
  }

  #extensionRule(kind: string): KindRule {
    const prefix = extensionPrefix(kind);
    if (prefix === null) throw this.#unknownKindError(kind);
    if (!this.#publisher.prefixes.includes(prefix)) {
      throw deniedError(
        `${this.#publisher.name} may not publish ${kind}: x.${prefix}.* belongs to another plugin.`,
      );
    }
    // A plugin must not publish its extension kinds on the kernel session; a part of the kernel may.
    const session = this.#publisher.category === null ? "any" : "own";
    const rule: KindRule = { session, never_in_child: false, payload: null, matches: acceptAny };
    // Bounded because a plugin can invent any number of kinds under its prefix.
    if (this.#extensions++ < MAX_EXTENSION_RULES) this.#kinds.set(kind, rule);
    return rule;
  }

  #checkSession(rule: KindRule, kind: string, session_id: string): void {
    if (typeof session_id !== "string" || session_id.length === 0 || session_id.length > SESSION_ID_MAX) {
      throw new BackplaneError(
        "request.invalid",
        `${kind} needs a session_id of 1 to ${SESSION_ID_MAX} characters.`,
      );
    }
    if (session_id === KERNEL_SESSION) {
      if (rule.session === "own")
        throw deniedError(`${kind} must not be published on the session "${KERNEL_SESSION}".`);
      return;
    }
    if (rule.session === "kernel")
      throw deniedError(`${kind} may be published only on the session "${KERNEL_SESSION}".`);
    if (this.#publisher.category === null) return;
    const is_reply_to_model_call =
      this.#publisher.category === "llm-provider" && kind.startsWith("llm.call.");
    if (
      session_id.startsWith(BRIDGE_PREFIX) &&
      !isBridgeOf(this.#publisher.name, session_id) &&
      !(is_reply_to_model_call && isModelBridge(session_id))
    ) {
      throw deniedError(
        `${this.#publisher.name} may not publish on ${session_id}: the session is private to another plugin.`,
      );
    }
    // A turn on the session of a bridge would fail in plugins that may not publish there, and count against them.
    if (kind === "user.message.received" && session_id.startsWith(BRIDGE_PREFIX)) {
      throw deniedError(
        `${kind} may not be published on ${session_id}: the session of a bridge has no turns.`,
      );
    }
    if (rule.never_in_child && session_id.includes(AGENT_SEPARATOR)) {
      throw deniedError(`Only the kernel may publish ${kind} on the session of a sub-agent.`);
    }
  }

  #unknownKindError(kind: string): BackplaneError {
    if (isBusKind(kind)) {
      const { name, category } = this.#publisher;
      return deniedError(
        `${name} may not publish ${kind}: the category ${category ?? "kernel"} does not include this kind.`,
      );
    }
    return new BackplaneError("request.invalid", `"${kind}" is not a public event kind.`, {
      fix: "Use a kind from the catalog, or x.<your plugin>.<kind> for an extension event.",
    });
  }
}

/**
 * A skill may publish the kinds of every plugin category, except approval.response, which is reserved for adapters.
 */
function mayPublish(category: PluginCategory | null, kind: BusKind, spec: BusKindSpec): boolean {
  if (category === null) return true;
  if (category === "skill") return spec.from !== "kernel" && kind !== "approval.response";
  return spec.from === category;
}

function deniedError(message: string): BackplaneError {
  return new BackplaneError("policy.denied", message, {
    fix: "Publish only kinds of the plugin's category, and only on sessions of its conversations.",
  });
}
