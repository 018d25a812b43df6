/** The fields of an instance. An operator typed the values, so an invalid one is replaced by its default. */
import {
  type AcceptedMedia,
  configNumber,
  configText,
  configTimeout,
  isVendorUrl,
  type JsonObject,
  MODELS_FIELD,
  type ProviderInstance,
  TIMEOUT_FIELD,
} from "@backplane/sdk/kernel";

export const OPENAI_HOST = "api.openai.com";
const VENDOR_URL = `https://${OPENAI_HOST}/v1`;

const EFFORTS = ["off", "low", "medium", "high"];

export interface OpenAiConfig {
  api_key: string;
  base_url: string;
  api: "chat" | "responses";
  organization: string | null;
  temperature: number | null;
  max_tokens: number | null;
  /** Null leaves the effort to the model. */
  thinking_effort: string | null;
  images: boolean;
  documents: boolean;
  audio: boolean;
  timeout_s: number;
}

export const configSchema: JsonObject = {
  type: "object",
  title: "OpenAI or compatible",
  properties: {
    api_key: { type: "string", title: "API key", description: "Not needed for most local servers." },
    base_url: {
      type: "string",
      format: "uri",
      title: "Base URL",
      description: "The URL of a compatible server; leave it empty for OpenAI itself.",
      default: VENDOR_URL,
    },
    model: { type: "string", title: "Model" },
    models: MODELS_FIELD,
    api: {
      type: "string",
      title: "API",
      enum: ["chat", "responses"],
      default: "chat",
      description: "Chat completions work everywhere; responses is OpenAI's own newer API.",
    },
    organization: { type: "string", title: "Organization" },
    temperature: { type: "number", title: "Temperature", minimum: 0, maximum: 2 },
    max_tokens: { type: "integer", title: "Maximum tokens of an answer", minimum: 1 },
    thinking_effort: {
      type: "string",
      title: "Thinking effort",
      description: "For a model that reasons before it answers; off leaves the effort to the model.",
      enum: EFFORTS,
      default: "off",
    },
    embedding_model: {
      type: "string",
      title: "Embedding model",
      description: "Used for `requestEmbedding` calls from instruments and for searching the memory.",
    },
    images: {
      type: "boolean",
      title: "Images",
      description:
        "Turn this off for a model that reads only text; images are then only mentioned in the text.",
      default: true,
    },
    documents: {
      type: "boolean",
      title: "PDF documents",
      description:
        "Whether the model reads PDFs; otherwise they are only mentioned in the text. On by default for OpenAI itself.",
    },
    audio: {
      type: "boolean",
      title: "Audio",
      description: "Turn this on for a model that accepts WAV and MP3 audio; only the chat API supports it.",
      default: false,
    },
    timeout_s: TIMEOUT_FIELD,
  },
  required: ["model"],
  additionalProperties: false,
};

export function readConfig({ config }: ProviderInstance): OpenAiConfig {
  const base_url = configText(config.base_url) ?? VENDOR_URL;
  return {
    api_key: configText(config.api_key) ?? "",
    base_url,
    api: config.api === "responses" ? "responses" : "chat",
    organization: configText(config.organization),
    temperature: configNumber(config.temperature),
    max_tokens: configNumber(config.max_tokens),
    thinking_effort: readEffort(configText(config.thinking_effort)),
    images: config.images !== false,
    documents: typeof config.documents === "boolean" ? config.documents : isOpenAiUrl(base_url),
    audio: config.audio === true,
    timeout_s: configTimeout(config.timeout_s),
  };
}

function readEffort(effort: string | null | undefined): string | null {
  return effort === "off" || !EFFORTS.includes(effort ?? "off") ? null : (effort ?? null);
}

/** The Responses API accepts no audio. */
export function acceptedMediaOf({ api, documents, audio }: OpenAiConfig): AcceptedMedia {
  const accepted = new Set<"document" | "audio">();
  if (documents) accepted.add("document");
  if (audio && api === "chat") accepted.add("audio");
  return accepted;
}

/** Whether calls go to OpenAI itself, which supports the newer field names. */
export function isOpenAiUrl(base_url: string): boolean {
  return isVendorUrl(base_url, OPENAI_HOST);
}
