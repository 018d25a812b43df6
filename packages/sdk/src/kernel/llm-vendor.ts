/**
 * Shared by providers that use a vendor's SDK: fields as an operator typed them, and a client that is loaded and
 * created at the first call. A vendor's own host requires a key; some compatible servers on other hosts do not.
 */
import type { Json, JsonObject } from "@backplane/contract";
import { LlmCallError } from "./llm-failure.ts";
import type { InstanceHealth } from "./llm-provider.ts";

/** Null for a value that is not text or is only whitespace. */
export function configText(value: Json | undefined): string | null {
  return typeof value === "string" && value.trim() !== "" ? value.trim() : null;
}

/** Null for a value that is not a number or is below zero. */
export function configNumber(value: Json | undefined): number | null {
  return typeof value === "number" && value >= 0 ? value : null;
}

const TIMEOUT_S = 600;

/** The field of a provider's schema that `configTimeout` reads. */
export const TIMEOUT_FIELD: JsonObject = {
  type: "number",
  title: "Timeout in seconds",
  description: "How long to wait for the next piece of an answer.",
  exclusiveMinimum: 0,
  default: TIMEOUT_S,
};

/** The field of a provider's schema that the model endpoints read beside `model`. */
export const MODELS_FIELD: JsonObject = {
  type: "array",
  items: { type: "string", minLength: 1 },
  title: "Other models",
  description: "Models besides the one above that clients of the model endpoints may name.",
};

export function configTimeout(value: Json | undefined): number {
  return configNumber(value) || TIMEOUT_S;
}

/** Whether the URL's host is `host` or a subdomain of it. */
export function isVendorUrl(url: string, host: string): boolean {
  try {
    const { hostname } = new URL(url);
    return hostname === host || hostname.endsWith(`.${host}`);
  } catch {
    return false;
  }
}

export interface VendorAccess {
  /** The id of the instance, as the operator configured it. */
  id: string;
  api_key: string;
  base_url: string;
  vendor_host: string;
}

/** `connect` runs once, and only if there is a key or the server is not the vendor's own. */
export function lazyVendorClient<Client>(
  access: VendorAccess,
  connect: () => Promise<Client>,
): () => Promise<Client> {
  let client: Promise<Client> | undefined;
  return () => {
    if (access.api_key === "" && isVendorUrl(access.base_url, access.vendor_host)) {
      const message = `The instance ${access.id} has no API key: set providers.${access.id}.api_key.`;
      return Promise.reject(new LlmCallError({ kind: "other", message }));
    }
    client ??= connect();
    return client;
  };
}

/** The health of an instance, decided without network access. */
export function vendorHealth({ id, api_key, base_url, vendor_host }: VendorAccess): InstanceHealth {
  if (!URL.canParse(base_url)) {
    const config_key = `providers.${id}.base_url`;
    return { status: "degraded", message: `${config_key} is not a valid URL`, config_key };
  }
  if (api_key === "" && isVendorUrl(base_url, vendor_host)) {
    const config_key = `providers.${id}.api_key`;
    return { status: "degraded", message: `no api_key: set ${config_key}`, config_key };
  }
  return { status: "ok" };
}

/** An error inside a stream has no status; the first of `words` that maps to a status provides it. */
export function withStatusOf<Failure extends { kind: string }>(
  failure: Failure,
  words: readonly unknown[],
  status_of: Readonly<Record<string, number>>,
): Failure {
  if (failure.kind !== "other") return failure;
  const word = words.find(
    (candidate): candidate is string => typeof candidate === "string" && Object.hasOwn(status_of, candidate),
  );
  return word === undefined ? failure : { ...failure, kind: "status", status_code: status_of[word] };
}
