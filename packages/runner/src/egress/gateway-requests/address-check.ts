/**
 * Addresses for code inside the gateway that connects by itself, such as a model provider's SDK: the address rules of
 * plugins. A name is resolved here, every address of it is checked, and the caller connects to those very addresses.
 */
import { isIP } from "node:net";
import { BackplaneError } from "@backplane/contract";
import { publicAndForeign } from "../destinations/address.ts";
import { allowList } from "../destinations/allow-list.ts";
import { type Asked, spell } from "../destinations/destination.ts";
import { decide, isOpened, type Policy } from "../destinations/policy.ts";
import { REFUSAL_REASONS, type RefusalReason } from "../destinations/refusals.ts";
import { systemResolver } from "../destinations/resolve.ts";
import type { OutwardRules } from "./guarded-requests.ts";

const CONNECT_MS = 10_000;

export interface PlaceCheck {
  /** `opened`: private places of this caller, besides those of the operator. Rejects with `policy.denied` or ENOTFOUND. */
  addresses(asked: Asked, opened: readonly string[]): Promise<readonly string[]>;
  /** For a literal address, which nobody resolves. Null: it may be connected to. */
  refuseLiteral(asked: Asked, opened: readonly string[]): BackplaneError | null;
}

export function createPlaceCheck(rules: OutwardRules = {}): PlaceCheck {
  const operator = (rules.operator_allows ?? []).map((place) => place.toLowerCase());
  const policyFor = (opened: readonly string[]): Policy => ({
    // Which names a plugin may ask for at all is decided before the address is looked at.
    allowed: allowList(["*"]),
    operator_allows: new Set([...operator, ...opened]),
    gateway: { names: new Set(), reachable: false },
    resolve: rules.resolve ?? systemResolver(CONNECT_MS),
    forbidden: rules.forbidden ?? publicAndForeign(),
  });
  return {
    async addresses(asked, opened) {
      const verdict = await decide(policyFor(opened), asked);
      if (verdict.kind === "target") return verdict.target.addresses;
      if (verdict.kind === "refused") throw refusal(asked, verdict.reason, verdict.detail);
      throw Object.assign(new Error(`${spell(asked)} cannot be found`), { code: "ENOTFOUND" });
    },
    refuseLiteral(asked, opened) {
      if (isIP(asked.host) === 0 || isOpened(policyFor(opened).operator_allows, spell(asked))) return null;
      return refusal(asked, "address.literal");
    },
  };
}

function refusal(asked: Asked, reason: RefusalReason, detail?: string): BackplaneError {
  const place = spell(asked);
  const more = detail === undefined ? "" : ` (${detail})`;
  const fix =
    "The host's admin can open it for one provider (backplane provider set ID --allow-private), or for everybody in egress.allow_private of backplane.toml.";
  return new BackplaneError(
    "policy.denied",
    `The gateway does not connect to ${place}. ${REFUSAL_REASONS[reason]}${more} ${fix}`,
    { fix, details: { reason, place } },
  );
}
