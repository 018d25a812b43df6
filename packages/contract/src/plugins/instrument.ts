/**
 * The instrument API: what a provider module exports and what its host hands it, and the shapes that cross the pipe
 * when it runs in a process of its own (spec/instruments.md). Names are Hefty's, so that one plugin fits both.
 */
import type { Json, JsonObject } from "../values/json.ts";
import type { MaybePromise } from "../values/maybe-promise.ts";
import type { INSTRUMENT_HEALTHS } from "../vocabulary/vocabulary.ts";
import type { StopSignal } from "./kernel-plugin.ts";

/** The Hefty version that this host is compatible with; `minHeftyVersion` is held against it, not against ours. */
export const HEFTY_VERSION = "0.22.0";
/** Where a folder, zip or jar says that it is an instrument plugin. */
export const INSTRUMENT_MANIFEST_FILE = "META-INF/hefty-plugin.json";

/** As entrypoint[0]: the host program that speaks for a module; entrypoint[1] is `./module.js#Export`. */
export const READY_HOST = "backplane-instrument-host";

/** The same for a Java class that implements InstrumentProvider; entrypoint[1] is its name. */
export const JAVA_HOST = "backplane-java-host";

export const INSTRUMENT_RISKS = [
  "ReadOnly",
  "LocalWrite",
  "SystemExecute",
  "NetworkWrite",
  "Critical",
] as const;
export type InstrumentRisk = (typeof INSTRUMENT_RISKS)[number];

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

/** What a module's export is: an object or a class with these. */
export interface InstrumentProvider {
  initialize(context: InstrumentContext): MaybePromise<void>;
  /** Asked after initialize; a function may be given instead of a list. */
  readonly instruments: readonly Instrument[] | (() => MaybePromise<readonly Instrument[]>);
  shutdown?(): MaybePromise<void>;
}

export interface Instrument {
  /** snake_case, unique among all plugins. */
  readonly name: string;
  /** Whatever it says, the host writes `plugin:<id>`. */
  readonly origin?: string;
  readonly riskLevel: InstrumentRisk;
  readonly metadata: InstrumentMetadata;
  readonly securityRules?: readonly InstrumentRule[];
  invoke(params: JsonObject, context: InstrumentCall): MaybePromise<InstrumentResult>;
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

/** Can only deny a call or raise its risk; the operator's policy decides the rest. */
export interface InstrumentRule {
  /** Without it the rule holds for every call. */
  match?: {
    /** JSON Pointer into the parameters. */ pointer: string /** Regular expression. */;
    pattern: string;
  };
  effect: "deny" | "raise";
  /** With `raise`: the least risk of such a call. */
  risk?: InstrumentRisk;
  reason: string;
}

/** What crosses the pipe of an instrument, all values. */
export interface InstrumentDeclaration extends Omit<Instrument, "invoke" | "healthCheck" | "origin"> {
  metadata: InstrumentMetadata &
    Required<Pick<InstrumentMetadata, "accessMode" | "sideEffects" | "keywords">>;
  securityRules: readonly InstrumentRule[];
}

/** Hefty's PluginContext; the name is taken by kernel plugins here. */
export interface InstrumentContext {
  readonly pluginId: string;
  /** Exists, and survives restarts. */
  readonly dataDir: string;
  /** The binding's config, flat: `{a: {b: 1}}` is `{"a.b": "1"}`. */
  readonly config: Readonly<Record<string, string>>;
  readonly heftyVersion: string;
  readonly logger: InstrumentLogger;
  /** Asks the active language model. Refused in External mode. */
  requestCognition(prompt: string, maxTokens: number): Promise<string>;
  /** Refused in External mode. */
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
  /** Fires when the call is cancelled or its time is over. */
  readonly signal: StopSignal;
}

export interface InstrumentResult {
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
  status: (typeof INSTRUMENT_HEALTHS)[number];
  message?: string;
}

/** Host to plugin: parameters and answer of each method (instr.rpc). `cancel` is a notification. */
export interface InstrumentMethods {
  initialize: [
    params: { pluginId: string; dataDir: string; config: Record<string, string>; heftyVersion: string },
    answer: { success: true },
  ];
  listInstruments: [params: Record<string, never>, answer: { instruments: InstrumentDeclaration[] }];
  invoke: [params: InstrumentInvocation, answer: InstrumentResult];
  healthCheck: [params: { instrument: string }, answer: InstrumentHealth];
  shutdown: [params: Record<string, never>, answer: { success: true }];
  cancel: [params: { invocationId: string; reason: string }, answer: null];
}

export interface InstrumentInvocation extends Omit<InstrumentCall, "signal"> {
  instrument: string;
  params: JsonObject;
  /** What `cancel` names. */
  invocationId: string;
}
