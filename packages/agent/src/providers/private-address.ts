/**
 * The address of an instance as `host:port`, and the one private address that a host admin has
 * allowed for it.
 */

import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";
import { ALLOW_PRIVATE_FIELD } from "@backplane/registry";

/**
 * Returns the address in lower case, with IPv6 in brackets and an explicit port; null unless the URL is http or https.
 */
export function addressOfUrl(url: unknown): string | null {
  if (typeof url !== "string" || !URL.canParse(url)) return null;
  const { hostname, port, protocol } = new URL(url);
  if (hostname === "" || !/^https?:$/.test(protocol)) return null;
  return `${hostname.replace(/\.$/, "")}:${port || (protocol === "http:" ? 80 : 443)}`;
}

/**
 * Returns the fields to write, with `allow_private` resolved to an address: `true` means the address of
 * `base_url`. A permission for an address other than the new `base_url` is removed with the change.
 */
export function withAllowedAddress(
  current: JsonObject,
  fields: JsonObject,
  config_schema: JsonObject | null,
): JsonObject {
  const address = addressOfUrl(resolveBaseUrl({ ...current, ...fields }, config_schema));
  const requested = fields[ALLOW_PRIVATE_FIELD];
  if (requested === undefined) {
    const allowed = current[ALLOW_PRIVATE_FIELD];
    return allowed === undefined || allowed === address ? fields : { ...fields, [ALLOW_PRIVATE_FIELD]: null };
  }
  if (requested === null || requested === false) return { ...fields, [ALLOW_PRIVATE_FIELD]: null };
  if (address === null) {
    throw invalid("config.allow_private: the instance has no base_url whose address could be allowed");
  }
  if (requested !== true && requested !== address) {
    throw invalid(`config.allow_private: write true or "${address}", the address of base_url`);
  }
  return { ...fields, [ALLOW_PRIVATE_FIELD]: address };
}

/** An empty base_url selects the default of the vendor. */
function resolveBaseUrl({ base_url }: JsonObject, config_schema: JsonObject | null): Json | undefined {
  if (base_url !== undefined && base_url !== null && base_url !== "") return base_url;
  const { properties } = (config_schema ?? {}) as { properties?: { base_url?: { default?: Json } } };
  return properties?.base_url?.default;
}

function invalid(message: string): BackplaneError {
  return new BackplaneError("provider.invalid", message);
}
