/**
 * `plugin.strategy_react.*` as checked values. An invalid value is treated as absent and reported as a problem; an
 * invalid list of tools allows no tool.
 */
import type { JsonObject } from "@backplane/sdk/kernel";

export interface ReactSettings {
  system_prompt: string;
  /** Whether to search memory at the start of a turn. */
  memory: boolean;
  memory_k: number;
  /** Whether to write the exchange to memory at the end of a turn. */
  remember: boolean;
  temperature?: number;
  /** The tools that may be offered; if absent, all that the host allows. */
  tools?: string[];
  /** The configured instance; if absent, the active one is used. */
  provider?: string;
  /** If absent, the instance's configuration applies. */
  model?: string;
}

export const DEFAULT_SYSTEM_PROMPT = [
  "You are a helpful assistant with tools that the host offers and runs for you.",
  "Use a tool when it gives a better answer than your own knowledge; read its result before you continue.",
  "Do not claim to have done anything that no tool result confirms.",
  "Be brief. Ask one short question when the request is unclear.",
].join(" ");

export const CONFIG_SCHEMA: JsonObject = {
  type: "object",
  properties: {
    system_prompt: {
      type: "string",
      description: "The first message that the model receives.",
      maxLength: 32_768,
    },
    memory: { type: "boolean", default: true, description: "Search memory at the start of a turn." },
    memory_k: {
      type: "integer",
      default: 5,
      minimum: 0,
      maximum: 50,
      description: "How many notes to request.",
    },
    remember: {
      type: "boolean",
      default: true,
      description: "Write each exchange to memory when the turn ends.",
    },
    temperature: { type: "number", minimum: 0, maximum: 2 },
    tools: {
      type: "array",
      items: { type: "string" },
      description: "The only tools to offer. If omitted, all of them.",
    },
    provider: { type: "string", description: "A provider instance. If omitted, the active one." },
    model: { type: "string", description: "A model. If omitted, the one that the instance specifies." },
  },
};

export function readSettings(config: JsonObject): { settings: ReactSettings; problems: string[] } {
  const problems: string[] = [];
  const read = <T>(key: string, label: string, accept: (value: unknown) => value is T): T | undefined => {
    const value = config[key];
    if (value === undefined || value === null) return undefined;
    if (accept(value)) return value;
    problems.push(`${key} is not ${label}`);
    return undefined;
  };
  const settings: ReactSettings = {
    system_prompt: read("system_prompt", "a string", isText) ?? DEFAULT_SYSTEM_PROMPT,
    memory: read("memory", "true or false", isFlag) ?? true,
    memory_k: read("memory_k", "a whole number from 0 to 50", isCount) ?? 5,
    remember: read("remember", "true or false", isFlag) ?? true,
  };
  const temperature = read("temperature", "a number from 0 to 2", isTemperature);
  if (temperature !== undefined) settings.temperature = temperature;
  const tools = read("tools", "a list of tool names", isNames);
  if (tools !== undefined) settings.tools = tools;
  // An invalid list must not widen to "all tools".
  else if ((config.tools ?? null) !== null) settings.tools = [];
  const provider = read("provider", "the id of an instance", isText);
  if (provider !== undefined) settings.provider = provider;
  const model = read("model", "the name of a model", isText);
  if (model !== undefined) settings.model = model;
  return { settings, problems };
}

const isText = (value: unknown): value is string => typeof value === "string" && value.trim() !== "";
const isFlag = (value: unknown): value is boolean => typeof value === "boolean";
const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 50;
const isTemperature = (value: unknown): value is number =>
  typeof value === "number" && value >= 0 && value <= 2;
const isNames = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((name) => typeof name === "string");
