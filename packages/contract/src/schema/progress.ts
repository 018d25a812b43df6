/** Progress of a long request, such as an installation. */
import { z } from "zod";
import { PROGRESS_STEPS, PROGRESS_UNITS } from "../vocabulary/progress.ts";

export const ProgressEventSchema = z.object({
  /** The id of the request. */
  operation_id: z.string(),
  step: z.enum(PROGRESS_STEPS),
  /** One sentence without a period. Names of packages in it come from their authors. */
  message: z.string(),
  done: z.number().min(0).optional(),
  /** Absent if the total is not known in advance. */
  total: z.number().min(0).optional(),
  unit: z.enum(PROGRESS_UNITS).optional(),
  /** Milliseconds since the request began. */
  elapsed_ms: z.int().min(0),
});

export type ProgressEvent = z.infer<typeof ProgressEventSchema>;
/** A report of the code that does the work; the API adds the request and the time. */
export type ProgressReport = Omit<ProgressEvent, "operation_id" | "elapsed_ms">;
