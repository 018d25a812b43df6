/** One row of the report of `backplane doctor`. */
export interface DoctorCheck {
  name: string;
  status: "ok" | "degraded" | "failed";
  message: string;
  fix?: string;
}
