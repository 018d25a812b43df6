/** `@backplane/sdk/instruments`: the module that authors of instrument plugins import. */
import { type InstrumentReturn, instrumentReturn } from "@backplane/contract";

export {
  HEFTY_VERSION,
  type Instrument,
  type InstrumentCall as InvocationContext,
  type InstrumentCategory,
  type InstrumentContext as PluginContext,
  type InstrumentFailure as InstrumentError,
  type InstrumentHealth,
  type InstrumentLogger,
  type InstrumentMetadata,
  type InstrumentProvider,
  type InstrumentRisk as RiskLevel,
  type InstrumentRule as SecurityRule,
} from "@backplane/contract";

export type InstrumentResult = InstrumentReturn;
export const InstrumentResult = instrumentReturn;
