import { serve } from "@backplane/sdk";
import { plugin } from "./triage.ts";

serve(plugin);
