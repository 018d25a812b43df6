/** The fields of an instance. An operator typed the values, so an invalid one is replaced by its default. */
import {
  configNumber,
  configText,
  configTimeout,
  isVendorUrl,
  type JsonObject,
  MODELS_FIELD,
  type ProviderInstance,
  TIMEOUT_FIELD,
} from "@backplane/sdk/kernel";

export const ANTHROPIC_HOST = "api.anthropic.com";
const VENDOR_URL = `https://${ANTHROPIC_HOST}`;
/** The thinking budget of each effort, in tokens. */
const EFFORT_TOKENS: Readonly<Record<string, number>> = { off: 0, low: 2_048, medium: 8_192, high: 24_576 };
/** Efforts that clients of other vendors request. */
const OTHER_EFFORTS: Readonly<Record<string, number>> = {
  none: 0,
  minimal: 1_024,
  xhigh: 32_768,
  max: 32_768,
};
/** The API requires a limit in every request. */
const MAX_TOKENS = 8_192;

export interface AnthropicConfig {
  api_key: string;
  base_url: string;
  max_tokens: number;
  temperature: number | null;
  /** The thinking budget in tokens; 0 disables thinking. */
  thinking_budget: number;
  cache: boolean;
  documents: boolean;
  timeout_s: number;
}

export const configSchema: JsonObject = {
  type: "object",
  title: "Anthropic",
  properties: {
    api_key: { type: "string", title: "API key" },
    base_url: { type: "string", format: "uri", title: "Base URL", default: VENDOR_URL },
    model: { type: "string", title: "Model" },
    models: MODELS_FIELD,
    max_tokens: { type: "integer", title: "Maximum tokens of an answer", minimum: 1, default: MAX_TOKENS },
    temperature: { type: "number", title: "Temperature", minimum: 0, maximum: 1 },
    thinking_effort: {
      type: "string",
      title: "Thinking effort",
      description: "A preset thinking budget; an explicit thinking budget takes precedence.",
      enum: Object.keys(EFFORT_TOKENS),
      default: "off",
    },
    thinking_budget: {
      type: "integer",
      title: "Thinking budget",
      description:
        "The maximum number of tokens for thinking before an answer, at least 1024; 0 turns thinking off.",
      minimum: 0,
    },
    cache: {
      type: "boolean",
      title: "Prompt caching",
      description: "Marks system prompt, tools and conversation for the vendor's cache.",
      default: true,
    },
    documents: {
      type: "boolean",
      title: "PDF documents",
      description:
        "Whether the model reads PDFs; otherwise they are only mentioned in the text. On by default for Anthropic itself.",
    },
    timeout_s: TIMEOUT_FIELD,
  },
  required: ["model"],
  additionalProperties: false,
};

export function readConfig({ config }: ProviderInstance): AnthropicConfig {
  const base_url = configText(config.base_url) ?? VENDOR_URL;
  return {
    api_key: configText(config.api_key) ?? "",
    base_url,
    max_tokens: configNumber(config.max_tokens) || MAX_TOKENS,
    temperature: configNumber(config.temperature),
    thinking_budget:
      configNumber(config.thinking_budget) ?? EFFORT_TOKENS[configText(config.thinking_effort) ?? "off"] ?? 0,
    cache: config.cache !== false,
    documents:
      typeof config.documents === "boolean" ? config.documents : isVendorUrl(base_url, ANTHROPIC_HOST),
    timeout_s: configTimeout(config.timeout_s),
  };
}

/** Returns null for an unknown effort, which leaves the budget as configured. */
export function budgetOf(effort: string): number | null {
  return EFFORT_TOKENS[effort] ?? OTHER_EFFORTS[effort] ?? null;
}
