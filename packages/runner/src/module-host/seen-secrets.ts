/** Secrets that a hosted plugin was given, so that its stderr can be quoted in a message without them. */
import {
  isObject,
  isSecretConfigKey,
  type Json,
  type JsonObject,
  type ProviderInstance,
} from "@backplane/contract";
import { createRedactor } from "../secrets/redact.ts";

/** Old values leave when a plugin sees very many: the newest are those that it uses. */
const MOST = 1_000;

export class SeenSecrets {
  readonly #values = new Set<string>();

  ofConfig(config: JsonObject): JsonObject {
    this.#see(config);
    return config;
  }

  ofInstances(instances: ProviderInstance[]): ProviderInstance[] {
    for (const { config } of instances) this.#see(config);
    return instances;
  }

  redact(text: string): string {
    return createRedactor([...this.#values]).excerpt(text);
  }

  #see(config: Record<string, Json>): void {
    for (const key of Object.keys(config)) {
      const value = config[key]!;
      if (typeof value === "string" && isSecretConfigKey(key)) this.#keep(value);
      else if (isObject(value)) this.#see(value);
    }
  }

  #keep(value: string): void {
    this.#values.add(value);
    if (this.#values.size > MOST) this.#values.delete(this.#values.values().next().value!);
  }
}
