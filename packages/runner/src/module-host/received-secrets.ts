/** Remembers the secrets that a hosted plugin has received, to redact them from its stderr and its refusals. */
import {
  isObject,
  isSecretConfigKey,
  type Json,
  type JsonObject,
  type ProviderInstance,
} from "@backplane/contract";
import { createCallRedactor } from "../secrets/redact.ts";

/** The oldest values are dropped first; a plugin most likely uses the newest. */
const MAX_VALUES = 1_000;

export class ReceivedSecrets {
  readonly #values = new Set<string>();

  rememberConfig(config: JsonObject): JsonObject {
    this.#rememberAll(config);
    return config;
  }

  rememberInstances(instances: ProviderInstance[]): ProviderInstance[] {
    for (const { config } of instances) this.#rememberAll(config);
    return instances;
  }

  redact(text: string): string {
    return createCallRedactor([...this.#values]).excerpt(text);
  }

  #rememberAll(config: Record<string, Json>): void {
    for (const key of Object.keys(config)) {
      const value = config[key]!;
      if (typeof value === "string" && isSecretConfigKey(key)) this.#remember(value);
      else if (isObject(value)) this.#rememberAll(value);
    }
  }

  #remember(value: string): void {
    this.#values.add(value);
    if (this.#values.size > MAX_VALUES) this.#values.delete(this.#values.values().next().value!);
  }
}
