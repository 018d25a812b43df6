/** The properties of an error code, and constructors for the four families. */
export interface ErrorSpec {
  family: "wire" | "plugin" | "refusal" | "fault";
  http: number;
  retryable: boolean;
  what: string;
  remedy: string;
}

export const wireSpec = (http: number, retryable: boolean, what: string, remedy: string) =>
  ({ family: "wire", http, retryable, what, remedy }) as const satisfies ErrorSpec;
export const pluginSpec = (http: number, retryable: boolean, what: string, remedy: string) =>
  ({ family: "plugin", http, retryable, what, remedy }) as const satisfies ErrorSpec;
export const refusalSpec = (http: number, what: string, remedy: string, retryable = false) =>
  ({ family: "refusal", http, retryable, what, remedy }) as const satisfies ErrorSpec;
export const faultSpec = (http: number, retryable: boolean, what: string, remedy: string) =>
  ({ family: "fault", http, retryable, what, remedy }) as const satisfies ErrorSpec;
