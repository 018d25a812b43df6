/**
 * The instrument API: the exports of a provider module, the context from its host, and the messages on the pipe of a
 * provider in its own process (spec/instruments.md). Hefty is another agent host. The names are Hefty's, so that a
 * plugin works with both.
 */
import type { Json, JsonObject } from "../values/json.ts";
import type { MaybePromise } from "../values/maybe-promise.ts";
import { RISK_OF_INSTRUMENT } from "../vocabulary/risk.ts";
import type { INSTRUMENT_HEALTH_STATUSES } from "../vocabulary/vocabulary.ts";
import type { StopSignal } from "./kernel-plugin.ts";

/** The Hefty version that this host is compatible with; `minHeftyVersion` is compared with it. */
export const HEFTY_VERSION = "0.22.0";
/** The manifest of an instrument plugin in a folder, zip or jar. */
export const INSTRUMENT_MANIFEST_FILE = "META-INF/hefty-plugin.json";

/** entrypoint[0] of a module that our host program runs; entrypoint[1] is `./module.js#Export`. */
export const INSTRUMENT_MODULE_HOST = "backplane-instrument-host";

/** entrypoint[0] of a Java class that implements InstrumentProvider; entrypoint[1] is its name. */
export const JAVA_HOST = "backplane-java-host";

export type InstrumentRisk = keyof typeof RISK_OF_INSTRUMENT;
export const INSTRUMENT_RISKS = Object.keys(RISK_OF_INSTRUMENT) as InstrumentRisk[];

export const INSTRUMENT_CATEGORIES = [
  "Shell",
  "Filesystem",
  "Process",
  "Network",
  "Application",
  "Browser",
  "InputCapture",
  "Clipboard",
  "System",
] as const;
export type InstrumentCategory = (typeof INSTRUMENT_CATEGORIES)[number];

export const ACCESS_MODES = ["Shared", "Exclusive"] as const;
export type AccessMode = (typeof ACCESS_MODES)[number];

export const INSTRUMENT_PLATFORMS = ["Linux", "MacOS", "Windows", "All"] as const;
export type InstrumentPlatform = (typeof INSTRUMENT_PLATFORMS)[number];

/** The export of a provider module: such an object, or a class whose instances are such objects. */
export interface InstrumentProvider {
  initialize(context: InstrumentContext): MaybePromise<void>;
  /** Read after initialize; a list, or a function that returns one. */
  readonly instruments: readonly Instrument[] | (() => MaybePromise<readonly Instrument[]>);
  shutdown?(): MaybePromise<void>;
}

export interface Instrument {
  /** snake_case, unique among all plugins. */
  readonly name: string;
  /** Ignored: the host sets `plugin:<id>`. */
  readonly origin?: string;
  readonly riskLevel: InstrumentRisk;
  readonly metadata: InstrumentMetadata;
  readonly securityRules?: readonly InstrumentRule[];
  invoke(params: JsonObject, context: InstrumentCall): MaybePromise<InstrumentReturn>;
  healthCheck?(): MaybePromise<InstrumentHealth>;
}

export interface InstrumentMetadata {
  /** The same as the instrument's name. */
  name: string;
  category: InstrumentCategory;
  description: string;
  accessMode?: AccessMode;
  platform?: InstrumentPlatform;
  inputSchema?: JsonObject;
  outputSchema?: JsonObject;
  sideEffects?: readonly string[];
  defaultTimeoutMs?: number;
  maxTimeoutMs?: number;
  keywords?: readonly string[];
}

/** A rule can only deny a call or raise its risk; the operator's policy decides the rest. */
export interface InstrumentRule {
  /** Without a condition the rule applies to every call. */
  match?: {
    /** A JSON Pointer into the parameters. */
    pointer: string;
    /** A regular expression. */
    pattern: string;
  };
  effect: "deny" | "raise";
  /** With `raise`: the minimum risk of such a call. */
  risk?: InstrumentRisk;
  reason: string;
}

/** The fields of an instrument that are sent over the pipe. */
export interface InstrumentDeclaration extends Omit<Instrument, "invoke" | "healthCheck" | "origin"> {
  metadata: InstrumentMetadata &
    Required<Pick<InstrumentMetadata, "accessMode" | "sideEffects" | "keywords">>;
  securityRules: readonly InstrumentRule[];
}

/** Hefty's PluginContext; kernel plugins use that name here. */
export interface InstrumentContext {
  readonly pluginId: string;
  /** An existing folder that is kept across restarts. */
  readonly dataDir: string;
  /** The binding's config, flattened: `{a: {b: 1}}` becomes `{"a.b": "1"}`. */
  readonly config: Readonly<Record<string, string>>;
  readonly heftyVersion: string;
  readonly logger: InstrumentLogger;
  /** Calls the active language model. Rejected in External mode. */
  requestCognition(prompt: string, maxTokens: number): Promise<string>;
  /** Rejected in External mode. */
  requestEmbedding(text: string): Promise<Float32Array>;
}

export type InstrumentLogger = Record<
  "debug" | "info" | "warn" | "error",
  (message: string, fields?: JsonObject) => void
>;

export interface InstrumentCall {
  readonly activityId: string;
  readonly sessionId: string;
  readonly traceId?: string;
  readonly timeoutMs?: number;
  readonly dataDirPath?: string;
  /** Aborted when the call is cancelled or its deadline passes. */
  readonly signal: StopSignal;
}

export interface InstrumentReturn {
  status: "Success" | "Error";
  /** `{stdout, stderr}`, or any value. */
  data: Json;
  error?: InstrumentFailure | null;
}

export interface InstrumentFailure {
  code: string;
  message: string;
  details?: Json;
}

export interface InstrumentHealth {
  status: (typeof INSTRUMENT_HEALTH_STATUSES)[number];
  message?: string;
}

/** Host to plugin: parameters and result of each method (instr.rpc). `cancel` is a notification. */
export interface InstrumentMethods {
  initialize: [
    params: { pluginId: string; dataDir: string; config: Record<string, string>; heftyVersion: string },
    result: { success: true },
  ];
  listInstruments: [params: Record<string, never>, result: { instruments: InstrumentDeclaration[] }];
  invoke: [params: InstrumentInvocation, result: InstrumentReturn];
  healthCheck: [params: { instrument: string }, result: InstrumentHealth];
  shutdown: [params: Record<string, never>, result: { success: true }];
  cancel: [params: { invocationId: string; reason: string }, result: null];
}

export interface InstrumentInvocation extends Omit<InstrumentCall, "signal"> {
  instrument: string;
  params: JsonObject;
  /** The id that `cancel` refers to. */
  invocationId: string;
}
