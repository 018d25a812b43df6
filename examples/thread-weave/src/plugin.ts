import { serve } from "@backplane/sdk";
import { plugin } from "./thread-weave.ts";

serve(plugin);
