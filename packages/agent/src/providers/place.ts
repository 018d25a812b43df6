/** Where an instance is, as `host:port`, and the one private place that the host's admin has opened for it. */

import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";
import { ALLOW_PRIVATE_FIELD } from "@backplane/registry";

/** Lower case, IPv6 in brackets, the port always there. Null for what is not an http or https URL. */
export function placeOfUrl(url: unknown): string | null {
  if (typeof url !== "string" || !URL.canParse(url)) return null;
  const { hostname, port, protocol } = new URL(url);
  if (hostname === "" || !/^https?:$/.test(protocol)) return null;
  return `${hostname.replace(/\.$/, "")}:${port || (protocol === "http:" ? 80 : 443)}`;
}

/**
 * The fields to write, with `allow_private` as the place it stands for: `true` means wherever `base_url` is. A permission
 * for another place than the new `base_url` is removed with the change.
 */
export function withAllowedPlace(
  before: JsonObject,
  fields: JsonObject,
  config_schema: JsonObject | null,
): JsonObject {
  const place = placeOfUrl(baseUrl({ ...before, ...fields }, config_schema));
  const asked = fields[ALLOW_PRIVATE_FIELD];
  if (asked === undefined) {
    const kept = before[ALLOW_PRIVATE_FIELD];
    return kept === undefined || kept === place ? fields : { ...fields, [ALLOW_PRIVATE_FIELD]: null };
  }
  if (asked === null || asked === false) return { ...fields, [ALLOW_PRIVATE_FIELD]: null };
  if (place === null) {
    throw invalid("config.allow_private: the instance has no base_url whose place could be opened");
  }
  if (asked !== true && asked !== place) {
    throw invalid(`config.allow_private: write true or "${place}", which is where base_url is`);
  }
  return { ...fields, [ALLOW_PRIVATE_FIELD]: place };
}

/** Left empty, it is the vendor's. */
function baseUrl({ base_url }: JsonObject, config_schema: JsonObject | null): Json | undefined {
  if (base_url !== undefined && base_url !== null && base_url !== "") return base_url;
  const { properties } = (config_schema ?? {}) as { properties?: { base_url?: { default?: Json } } };
  return properties?.base_url?.default;
}

function invalid(message: string): BackplaneError {
  return new BackplaneError("provider.invalid", message);
}
