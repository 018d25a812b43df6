/**
 * Scripts of 20 conversations for the held-out set. held-out-conversations.ts explains the notation and turns a script
 * into blocks. The scripts were written without a look at the compactor; changing them after a measurement would make
 * the set a second tuning set.
 */
export const SCRIPTS = `
# planning a move; order=alternate; turns=58; tool=read_inventory; row=| {x} | {n} kg | room {n} |
nouns: wardrobe, piano, cellar shelves, kitchen boxes, curtains, washing machine, desk, bicycles, plants, bookcases
names: Ines, Robert, Grandma, the landlord, Malte
- Last time we moved, the {x} alone took {n} minutes on the stairs.
- {p} thinks the {x} can go last because nobody needs it before {d}.
- I measured the {x} again and it comes to {n} centimetres.
+ By the way, the neighbour's cat sat in an open box for {n} minutes and refused to leave.
= The mirror from the hall cracked when we took it down.
= Malte found his school reports from 1998 behind the radiator.
= The council wants a form for the no-parking sign, it costs 40 euros.
= We gave the aquarium to the kindergarten round the corner.
= The second key of the letterbox has been missing since winter.
= Grandma knits covers for the chair legs.
= The cellar of the new place was flooded once, in 2013.
= Robert has a bad back and carries lamps only.
= I cancelled the newspaper and forwarded the post.
@ removal firm
u We signed with [Halloran and Sons] for the lorry, the other two firms never called back. ?? Who did we hire for the move with the lorry in the end?
u The lorry will be outside the flat at [07:30] on moving day. ?? When will the lorry be outside the flat on moving day?
~u The firm rang: the lorry can only be outside the flat at [09:15] on moving day now.
a Their quote includes insurance up to [12,000 euros] for the whole load. ?? Up to what sum does the quote include insurance for the load?
u The piano needs [four carriers], the firm refuses to lift it with fewer. ?? How many people have to lift the piano?
- The firm asks for a list of everything above {n} kilos.
@ old flat
u The deposit of the old flat is [1,860 euros] and comes back six weeks after the handover. ?? How much deposit do we get back for the old flat?
u Handover of the old flat is with [Mrs Petrides], not with the landlord himself. ?? With whom is the handover of the old flat?
a The contract says that holes in the walls must be filled, but [painting is not required]. ?? What does the contract say about painting and holes in the walls?
t meter reading electricity old flat: [48213.7] ?? What was the electricity meter reading in the old flat?
- The old flat has {n} hooks in the hall that nobody wants.
@ new house
u The new house has its fuse box [behind the pantry door], which took me an hour to find. ?? Where is the fuse box in the new house?
u The internet technician visits the new house on [3 June]. ?? On what date does the internet technician visit the new house?
~a I moved the appointment: the internet technician visits the new house on [11 June].
u Ines wants the [attic room], she has asked for it since the first viewing. ?? Where will Ines sleep, which room has she asked for?
u We must not drill into the north wall of the bathroom, [the gas pipe runs there]. ?? Why must we not drill into the north wall of the bathroom?
- The new house smells of paint in room {n}.

# hospital shift handover; order=series; turns=62; tool=read_chart; row=| {n}:00 | bed {n} | pulse {n} | {x} |
nouns: drip, dressing, chart, oxygen line, pain score, fluid balance, wound drain, call bell, blood round, mattress
names: Sister Adeyemi, Dr Farkas, the porter, the night team, physiotherapy
- {p} looked at the {x} at {n} past and was content.
- The {x} in bed {n} was changed before the ward round.
- Nothing else to report about the {x}, please look again in {n} minutes.
+ The lift by the east stairs is out again, {p} waited {n} minutes for it.
= Bed fourteen is empty since noon and has been cleaned.
= The pharmacy sent the wrong size of gloves again.
= A student from Galway follows us this week.
= The relatives of Mr Thorne brought a cake with candles, please no flame.
= The blood fridge beeped at four, the door was not shut.
= Visiting ends at eight, the sign at the door is out of date.
= Two discharge letters wait for a stamp from the secretary.
= The new bladder scanner needs a password that nobody has.
@ Mrs Lindqvist
u Mrs Lindqvist is allergic to [cefuroxime], it is not in the old notes yet. ?? What is Mrs Lindqvist allergic to?
u The daughter of Mrs Lindqvist wants a call [before any sedation]. ?? In which case do we have to call the daughter of Mrs Lindqvist first?
t Lindqvist, potassium [3.1] mmol/l, sample 05:40 ?? What was the potassium of Lindqvist in the sample?
u Mrs Lindqvist gets her enoxaparin at [22:00], the drug chart is hard to read. ?? At what time does Mrs Lindqvist get her enoxaparin?
~u Dr Farkas has changed it, Mrs Lindqvist gets her enoxaparin at [20:00] from tonight.
@ Mr Okonkwo
u Mr Okonkwo goes to theatre [second on the list] tomorrow. ?? Where on the list for theatre is Mr Okonkwo?
a For Mr Okonkwo the surgeon wants the drain [left open], clamping caused pain. ?? What does the surgeon want for the drain of Mr Okonkwo?
u Mr Okonkwo hears badly on the [left side], so stand on the other one. ?? Mr Okonkwo is hard of hearing, on which side?
l Mr Okonkwo: fasting from [02:00], clear fluids until then ?? When does Mr Okonkwo have to stop drinking and start fasting?
@ ward business
u The key of the controlled drugs cupboard is with [Sister Mbeki] tonight. ?? Who has the key of the controlled drugs cupboard tonight?
u We are down to [two infusion pumps], the rest are at the workshop. ?? How many working infusion pumps do we still have?
a The crash trolley check was signed at [18:45]. ?? When was the crash trolley check signed?
u The agency nurse for the night is called [Torben], he has not been on this ward before. ?? What is the agency nurse for the night called?

# tax questions; order=return; turns=54; tool=list_receipts; row={n}.0{n} EUR  {x}  receipt {n}
nouns: travel costs, office chair, phone bill, donations, training course, train tickets, laptop, insurance, home office, bank fees
names: the adviser, my wife, the tax office, Kerstin, my employer
- The {x} came to {n} euros in March and a bit less after that.
- {p} said that the {x} is never a problem if the receipt is there.
- I put the {x} into folder {n} and hope that is fine.
= I bought a second monitor in Dresden for 219 euros.
= The certificate for the solar panels came from a firm that no longer exists.
= We were married in July, in case that matters.
= The bank charged me twice in autumn and paid it back.
= My last adviser retired and moved to Crete.
= I kept a logbook of the car until April, then I lost interest.
= The union fee is taken directly from the salary.
= Our son turned eighteen at the end of November.
@ income
u My side business made a profit of [7,412] euros last year. ?? How much profit did my side business make last year?
~u I forgot an invoice, so the side business made a profit of [8,097] euros last year.
u The flat in Leipzig is let to [a dental student], the rent arrives in cash. ?? Who is my tenant in Leipzig?
a Your employer reported a company bicycle, taxed at [0.25 percent] of its list price. ?? At what rate is the company bicycle taxed?
u The broker holds my shares in [Luxembourg], so no tax was withheld at source. ?? Where is the broker with my shares?
@ deductions
u I commute [23 kilometres] one way, on three days a week. ?? How many kilometres do I commute one way?
u The childcare invoices are in the name of [my mother-in-law], could that be a problem? ?? In whose name are the childcare invoices?
a The study counts only when it is a separate room, and [yours has a guest bed in it], so leave it out. ?? Why should the study be left out of the separate room rule?
l glasses for screen work: not deductible, [no prescription from the company doctor] ?? Why are the glasses for screen work not deductible?
t donation receipt, animal shelter, [340.00] EUR, stamped ?? How much did I give to the animal shelter?
@ deadlines
u The tax office gave me an extension until [30 September]. ?? Until when did the tax office give me an extension?
~a The letter you pasted says something else: the tax office gave an extension until [31 August] only.
u My file number at the office starts with [217/]. ?? How does my file number at the office start?
u Refunds should go to the account at [Sparda], the old one is closed. ?? To which account should refunds go now that the old one is closed?

# school timetable; order=random; turns=60; tool=show_week; row={d} period {n} | room {n} | {x}
nouns: double lesson, break duty, chemistry lab, choir, music room, lunch queue, year nine, register, exam hall, minibus
names: Mr Tanaka, Frau Seidel, the head, Ms Brightwell, the caretaker
- {p} asked whether the {x} could move to period {n}.
- The {x} clashes with period {n} on {d}, as it did last term.
- I tried the {x} in room {n} and the week still closes.
+ {p} brought cake for the staff room, {n} slices were gone in a minute.
= The piano in the hall is out of tune since the flood.
= Two pupils of year eleven travel to Oslo for a chess tournament.
= The new photocopier staples only on the left.
= A father complained about homework over the holidays.
= The canteen closes on the last Thursday of each month.
= The sixth form wants a quiet room with sofas.
= The fire drill will be announced only to the head.
= Detention is held in the library, next to the atlases.
@ teachers
u Mr Tanaka cannot teach before [10:20], he brings his twins to nursery. ?? How early can Mr Tanaka teach, given his twins?
u Frau Seidel shares her post with [Mr Quayle], so never give both the same afternoon. ?? With whom does Frau Seidel share her post?
u Ms Brightwell is on [maternity leave] from the spring term. ?? Why can Ms Brightwell not take a class in the spring term?
a The head teaches one class only, [Latin in year ten]. ?? Which class does the head teach?
@ rooms
u The gym floor is closed until [Easter], so sports moves to the pool. ?? Until when is the gym floor closed?
~u Good news from the builders, the gym floor is closed only until [carnival].
u The only lab with a fume hood is [B17]. ?? Where can I do an experiment that needs the fume hood?
t seats: hall 240, drama [studio 64], library 38 ?? How many seats has the drama studio?
@ rules
u No class may have more than [seven periods] on one day, the parents insisted. ?? How many periods may a class have at most on one day?
u The late bus leaves at [15:52], nobody can finish after that. ?? What is the departure time of the late bus?
c const MAX_GAPS_PER_TEACHER [= 2;] // agreed with the staff council ?? What did the staff council agree for MAX_GAPS_PER_TEACHER?
u Religion and ethics must [run in parallel], the groups are mixed from three classes. ?? How must religion and ethics be placed for the groups mixed from three classes?
@ exams
u The oral exams fall in the week of [18 March]. ?? In which week do the oral exams fall?
~u The ministry moved it, the oral exams fall in the week of [8 April].
a Invigilation of the French paper goes to [Madame Roche]. ?? To whom goes the invigilation of the French paper?

# board game design; order=alternate; turns=64; tool=simulate; row=game {n}: winner seat {n}, {n} rounds, {x}
nouns: harvest phase, market deck, dice tower, player board, wooden fish, storm card, scoring track, rule sheet, prototype, first player token
names: Lou, the Tuesday group, Hanneke, the publisher, Bashir
- In the last test the {x} took {n} minutes, which felt slow.
- {p} liked the {x} but forgot it in round {n}.
- I printed the {x} at {n} percent size and it reads well.
= One tester compared it to a game about trains from 1985.
= The insert does not close when the cards are sleeved.
= We lost a meeple under the sofa and found a coin.
= Hanneke translates the rules to Dutch for a crate of beer.
= The blue pieces look grey under yellow light.
= A reviewer with 12,000 followers wants a copy.
= The dice tower was my cousin's idea.
= We played once on a ferry and the wind took three cards.
@ rules
u Every player starts with [five nets] and one boat. ?? With how many nets does every player start?
~u The testers were bored early, so every player starts with [eight nets] now.
u Ties are broken by [the fewest coins], which surprised everybody. ?? Two players have the same score, how are ties broken?
a The game ends when the [lighthouse] pile is empty. ?? What triggers the end, which pile has to be empty?
u Trading is only allowed [between neighbours], the table was too loud. ?? Between whom is trading allowed?
@ theme
u The working title is [Low Tide], we dropped the pirate name. ?? What is the working title?
u The illustrator is [Noor Halabi], she paints only with gouache. ?? Who paints our cards, the illustrator with the gouache?
u No skulls on the cards, [the publisher sells to kindergartens]. ?? Why no skulls on the cards?
@ production
a The box must stay below [1.4 kilos] for the cheap parcel rate. ?? How heavy may the box be for the cheap parcel?
u The first print run is [1,500] copies. ?? How many copies is the first print run?
~u After the fair we raised it, the first print run is [2,200] copies.
t component check: linen finish on cards, [310 gsm], die cut ok ?? Which gsm has the linen finish on the cards?
u The factory in [Kaunas] makes the wooden parts. ?? Where is the factory that makes the wooden parts?
c [maxPlayers: 5], // six players needed a second board ?? What is maxPlayers, given that six players needed a second board?

# kitchen garden; order=series; turns=52; tool=weather; row={d}: {n} mm rain, soil {n} degrees, {x}
nouns: compost, raised bed, rain barrel, bean poles, cold frame, slug fence, mulch, seed trays, greenhouse, watering can
names: my aunt, the allotment board, Femi, old Mr Brandt, the nursery
- I spent {n} minutes on the {x} and my back hurts.
- {p} swears that the {x} is what makes the difference.
- The {x} was {n} percent full on {d}.
+ There was a hedgehog under the {x} at {n} past nine.
= The quince tree carried fruit for the first time.
= Somebody took the blue wheelbarrow and brought it back with a flat tyre.
= The nasturtiums came up by themselves.
= Femi grows chillies on a balcony in the fourth floor.
= I found a Roman looking shard while digging, it was a flowerpot.
= The lid of the rain barrel blew into the next plot.
= Moles have crossed the lawn from east to west.
= The elder blossoms went into syrup, fourteen bottles.
@ beds
u Bed three had [clubroot] two years ago, so no cabbage there. ?? What disease was in bed three, why no cabbage?
u The garlic went in on [28 October], a bit late. ?? When did I plant the garlic that went in late?
u I want the strawberries [beside the shed], the old place is too dry. ?? Where do I want the strawberries?
~u I changed my mind about the shed, I want the strawberries [along the south fence].
a Leeks follow the [early potatoes] in your rotation. ?? What do leeks follow in the rotation?
@ soil and water
u The soil test came back with a pH of [5.6]. ?? Which pH did the soil test come back with?
a Spread [200 grams] of lime per square metre, not more in one year. ?? How much lime per square metre should I spread in one year?
u The well water has too much [iron], the leaves get brown spots. ?? Why do the leaves get brown spots from the well water?
l tomatoes: water at the root, [never in the evening] ?? When should the tomatoes not get water at the root?
t seed order 7781: [Black Krim], 2 packets, shipped ?? Which seed was shipped with order 7781?
u The allotment board allows bonfires only in [November]. ?? When may I light bonfires according to the allotment board?

# rail trip booking; order=return; turns=56; tool=search_trains; row=train {n} dep {n}:{n} changes {n} | {x}
nouns: sleeper car, window seat, luggage rack, connection, restaurant car, seat map, ticket, platform, passport, museum pass
names: Yusuf, my parents, the hotel, the conductor, Clara
- The {x} was {n} euros cheaper when I looked on {d}.
- {p} would like the {x} if it does not cost more than {n} extra.
- I found a connection with {n} minutes at the change.
+ {p} sent me a photograph of a tram with {n} pigeons on it.
= The dining car serves goulash from a tin.
= Yusuf left his umbrella in a train to Kiel once.
= The museum of bees is closed on Mondays.
= There is a flea market under the bridge on Sundays.
= Somebody at work recommended a swimming pool in Maribor.
= The tram museum needs a reservation by telephone.
= We bring our own sandwiches for the first leg.
= The station in Villach has lockers for two coins.
@ trains
u We leave Hamburg on [Friday 9 May], after school. ?? When do we leave Hamburg?
~u Clara has an exam on that Friday, we leave Hamburg on [Saturday 10 May] instead.
a The night train from Zurich is booked under the code [QK7TLM]. ?? Under which code is the night train from Zurich booked?
u My father needs a [lower berth], his knee will not do the ladder. ?? What kind of berth does my father need because of the knee?
t night train Zurich, [car 302], berths 41 to 46 ?? In which car are the berths of the night train from Zurich?
@ places to stay
u In Ljubljana we stay with [Yusuf's cousin], no hotel there. ?? Where do we sleep in Ljubljana?
u The hotel in Trieste locks its door at [23:30]. ?? How late can we come home to the hotel in Trieste before they lock the door?
a The house in Piran wants the rest of the money [in cash on arrival]. ?? How does the house in Piran want the rest of the money?
u We have to be out of the house in Piran by [10:00] on the last day. ?? What is the check-out time of the house in Piran on the last day?
@ people
u Clara is vegetarian but eats [fish], as of this year. ?? What does vegetarian Clara eat as of this year?
u The total budget for all six of us is [3,900 euros]. ?? What is the total budget for all six of us?
~u My parents pay for the night train themselves, so the total budget for us is [3,300 euros].
u My mother gets seasick, so [no ferry to Venice]. ?? What is ruled out because my mother gets seasick?

# incident response; order=random; turns=66; tool=tail_log; row=12:{n}:{n} WARN {x} latency={n}ms shard={n}
nouns: checkout queue, replica lag, error budget, dashboard, certificate, load balancer, cache nodes, alert, runbook, connection pool
names: Oyelaran, the on-call, Birgit, support, the vendor
- The {x} went up to {n} percent for a moment and then recovered.
- {p} does not think that the {x} is the cause, it was the same on {d}.
- I restarted one of {n} and the {x} did not change.
= The pager of the second line had an empty battery.
= A sales person tweeted a picture of the error page.
= The staging cluster runs one kernel version behind.
= Somebody opened a bridge call and forgot to invite the network team.
= The graph in the weekly report uses a logarithmic axis.
= A cron entry from 2019 still writes to a bucket that nobody reads.
= The office in Lyon lost power for unrelated reasons.
= Pizza arrived at four in the morning, with pineapple.
@ cause
u The first alert came in at [02:14], before the deploy had finished. ?? At what time did it start, when was the first alert?
u Rolling back did not help because [the migration had dropped the index]. ?? Why did rolling back not help?
a The thread dump shows that all workers wait for [the geocoding client]. ?? What do all workers wait for in the thread dump?
t 02:31:07 FATAL disk quota exceeded on [/var/spool/outbound] ?? Where was the disk quota exceeded?
u I suspect a leak in the [image resizer], memory grows after each upload. ?? Where do I suspect a leak, since memory grows after each upload?
~u Memory was a red herring, I now suspect a leak in the [session store] after each upload.
@ impact
u Support counted [418] failed orders so far. ?? What is the latest number of failed orders from support?
~u New count from support: [1,073] failed orders, the earlier figure left out the app.
u Only customers in [Norway and Finland] were affected. ?? In which countries were customers affected?
a The payment provider kept the authorisations, so [no customer was charged twice]. ?? What about the authorisations that the payment provider kept, was a customer charged twice?
@ communication
u The status page is written by [Birgit], nobody else edits it. ?? Who writes the status page?
u Legal wants to see the text [before the word breach is used]. ?? When does legal want to see the text?
u The next update for the executives is due at [06:00]. ?? When is the next update for the executives due?
@ follow-up
a Temporary workaround: the feature flag [geo_lookup_v3] stays off. ?? Which feature flag stays off as a workaround?
u The review meeting is on [Thursday], in the small room. ?? When do we hold the review meeting?
u Oyelaran promised a [dead letter queue] as the long term fix. ?? What did Oyelaran promise as the long term fix?

# contract negotiation; order=alternate; turns=60; tool=compare_drafts; row=clause {n}.{n} | draft {n} | {x}
nouns: liability clause, annex, warranty, notice period, price list, service levels, draft, preamble, confidentiality, signature page
names: their counsel, Ms Ferreira, our board, Anselm, procurement
- {p} wants to read the {x} again before {d}.
- The {x} has grown to {n} lines since the first draft.
- I would not fight about the {x}, it cost us {n} hours last year.
= Their office is on the ninth floor and smells of lilies.
= The first meeting was interrupted by a fire alarm.
= The template comes from a law firm in Leuven.
= They spell our name with two s in the annex.
= A competitor offered them a free pilot, we heard.
= The signature will be electronic unless the bank objects.
= Procurement uses a portal that logs out after ten minutes.
= The definition of working day leaves out Carnival Monday.
@ money
u Our floor is [84 euros] per seat, below that we walk away. ?? What is the lowest price per seat that our board allows as our floor?
~u The board met this morning, our floor is [79 euros] per seat now.
u They pay within [45 days], they would not accept thirty. ?? What payment term did they accept, if not thirty days?
a Their draft ties the yearly increase to [the consumer price index]. ?? To what does their draft tie the yearly increase?
u A discount is possible only for [a three year term]. ?? For what is a discount possible?
@ liability
u Anselm will accept a cap at [twice the annual fee]. ?? At what will Anselm accept a cap?
a In draft four they deleted the exception for [gross negligence]. ?? For what did they delete the exception in draft four?
u The insurer covers data loss up to [2 million]. ?? Up to what sum does the insurer cover data loss?
t clause 11.3 changed: venue is [Rotterdam], was Antwerp ?? Which venue has clause 11.3?
@ people and process
u The one who decides on their side is [Ms Ferreira], not the counsel. ?? Who has the last word on their side, not the counsel?
u They need a signature before [15 December], their budget lapses after it. ?? Before what date do they need a signature?
~u Their year end moved with the merger, they need a signature before [30 January].
u Do not mention [the outage in spring], they seem not to know. ?? What should we not mention because they seem not to know?
l exit: data returned as [CSV], within a month, free of charge ?? In what format is data returned at the exit?

# lab notebook; order=series; turns=58; tool=plate_reader; row=well {n} OD {n}.{n} flag {x}
nouns: buffer, centrifuge, gel, pipette tips, incubator, cell line, freezer box, primer, antibody, control plate
names: Ravi, the postdoc, Dr Sokolova, the core facility, Jule
- The {x} looked the same as in run {n}.
- {p} borrowed the {x} for {n} minutes and brought it back.
- I repeated the {x} step with {n} microlitres.
= The ice machine on the second floor leaks.
= Jule ordered the wrong caps, they are for cryo tubes.
= The microscope camera saves pictures as bitmap files.
= We moved the shaker next to the window.
= A fire drill interrupted the second wash.
= The ethanol was from an opened bottle.
= The seminar room is booked by the chemists until May.
= Somebody wrote a phone number on the fume hood glass.
@ samples
u The mutant strain sits in freezer box [K4], second shelf. ?? Where do I find the mutant strain, which freezer box?
u Sample nine was [thawed twice], so do not use it for the blot. ?? How many times has sample nine been thawed?
u Ravi labelled the knockouts with [green tape]. ?? How did Ravi label the knockouts?
a The sequencing shows a stop codon at position [212]. ?? At which position does the sequencing show a stop codon?
@ protocol
u I lysed the cells for [12 minutes] on ice. ?? For how long did I lyse the cells on ice?
~u Correction in the notebook, I lysed the cells for [20 minutes] on ice, the timer was wrong.
u The primary antibody works best at [1:750]. ?? At what dilution does the primary antibody work best?
u The annealing temperature that finally worked was [61.5] degrees. ?? What annealing temperature should I set for the next run?
c spin_g = [4500]  # the old rotor is not rated for more ?? What is spin_g, given what the old rotor is rated for?
l blocking: use [milk powder], albumin gave a high background ?? What to use for blocking, as albumin gave a high background?
@ results
t mean of triplicates, treated: [0.87], untreated 0.31 ?? What was the mean of triplicates for treated?
u Dr Sokolova does not believe the second replicate because [the lamp was replaced that day]. ?? Why does Dr Sokolova not believe the second replicate?
u The figure goes to [supplementary], the editor found it confusing. ?? Where does the figure go that the editor found confusing?
u The reviewers want a dose response with [six concentrations]. ?? How many concentrations do the reviewers want for the dose response?

# recipe scaling for a wedding; order=return; turns=54; tool=convert; row={x}: {n} g -> {n} kg for {n} guests
nouns: dough, roasting tins, cream, oven, serving spoons, lemons, cool room, gravy, bread rolls, herbs
names: Chef Marchetti, the bride, Tilda, the venue, my brother
- For the {x} I would plan {n} minutes more than the recipe says.
- {p} tasted the {x} and asked for less salt.
- The {x} at the venue holds {n} portions.
+ {p} burnt a tray of {n} biscuits and blamed the thermostat.
= The marquee has a wooden floor and one step.
= The aunt from Bari brings olives in a suitcase.
= The dishwasher at the venue needs four minutes for a load.
= My brother owns two gas burners and a paella pan.
= The napkins are dark green, folded as fans.
= A photographer wants a plate for pictures at noon.
= Ice comes from the fishmonger in polystyrene boxes.
= The village bakery closes for holidays that week.
@ guests
u We cook for [134] guests, plus the band. ?? For how many guests do we cook?
~u The replies are in, we cook for [151] guests, plus the band.
u The groom's uncle has [coeliac disease], so his plate is made first. ?? Which illness do we have to mind for the groom's uncle?
u Children eat at [17:30], the others an hour later. ?? At what time is dinner for the children?
@ main course
u The bride chose [lamb shoulder], the beef was too dry at the tasting. ?? What did the bride choose after the beef was too dry?
a Count [280 grams] of raw meat per head when the bone is in. ?? How many grams of raw meat per head do I count with the bone in?
u The core temperature should reach [68 degrees] before it rests. ?? How hot must the meat get, which core temperature before it rests?
l sauce: reduce by half, then add the [quince jelly] at the end ?? What do I add to the sauce at the end?
u Tilda can carve, but [not before eight], she plays in the band. ?? From when can Tilda carve, as she plays in the band?
@ cake
u The cake has three tiers and the lowest is [38 centimetres] wide. ?? What is the diameter of the lowest cake tier?
u No marzipan on the cake, [the bride hates it]. ?? Why no marzipan on the cake?
t oven 2 runs hot by [15 degrees], probe check ok ?? By how many degrees does oven 2 run hot?
a The sponge can be frozen for [ten days] without loss. ?? For how long can the sponge be frozen?
u The florist brings edible [violets] for the top tier. ?? What edible thing does the florist bring for the top tier?

# bicycle repair; order=alternate; turns=50; tool=parts_search; row=part {n}-{n} | {x} | {n} EUR | stock {n}
nouns: chain, cassette, rim tape, brake pads, spokes, saddle, mudguard, inner tube, cable, pedal
names: the shop, Wojtek, my daughter, the seller, Pia
- I cleaned the {x} and counted {n} scratches.
- {p} sells a {x} for {n} euros, used.
- The {x} has done about {n} hundred kilometres.
= The bell sounds like a duck since it fell down.
= I found a coin from Denmark in the handlebar grip.
= The repair stand stands on three legs and one brick.
= Wojtek rode from Gdynia to Ghent on a folding bike.
= The paint is called petrol, but it looks green.
= The dynamo light flickers on cobblestones.
= The old bottle cage rattled, I wrapped it with tape.
= A magpie stole a shiny washer from the bench.
@ touring bike
u The bottom bracket of the touring bike is an [Italian thread], that is why nothing fitted. ?? Which thread has the bottom bracket of the touring bike?
u The rear hub of the touring bike takes [36 spokes]. ?? How many spokes does the rear hub of the touring bike take?
a Torque for the stem bolts is [5 Nm], the carbon cracks above it. ?? How tight may I turn the stem bolts?
u The creak on the touring bike comes from the [seat post clamp], I am sure now. ?? Where does the creak on the touring bike come from?
~u I was wrong about the clamp, the creak on the touring bike comes from the [left crank].
u I run the front tyre at [3.2 bar], the rear a little higher. ?? At what pressure do I run the front tyre?
@ cargo bike
u The cargo bike must be ready by [Saturday noon], Pia collects it. ?? When does Pia collect the cargo bike?
u The motor of the cargo bike shows error [E-47] when it is cold. ?? What code appears on the cold motor of the cargo bike?
a That motor error means [a worn torque sensor], not an empty battery. ?? What does the motor error mean, if not an empty battery?
t frame number cargo bike: [WB91X0552], not reported stolen ?? What is the frame number of the cargo bike?
u My daughter wants the child seat [facing backwards]. ?? How does my daughter want the child seat?
u The spare key for the battery lock hangs [in the boiler room]. ?? Where does the spare key for the battery lock hang?
l do not use degreaser on the [freehub], it washes out the grease ?? What should not get degreaser because it washes out the grease?

# data migration; order=random; turns=64; tool=run_query; row=batch {n} | {x} | {n} rows | {n} rejected
nouns: staging table, mapping sheet, date column, duplicate check, export, cutover plan, checksum, legacy view, nightly job, archive
names: Svetlana, the vendor, Kofi, finance, the auditors
- The {x} took {n} minutes on the small cluster.
- {p} wants a second look at the {x} before {d}.
- We had {n} rejects in the {x}, all of them harmless.
+ The coffee machine on floor {n} now wants a badge, {p} is furious.
= The legacy server stands under a desk in Bratislava.
= One table is named after a former intern.
= The vendor's hotline plays the same waltz for an hour.
= Phone numbers from Belgium lost their leading zero in 2016.
= Two departments use the colour field for comments.
= The test laptop has a sticker of an otter.
= A trigger sends a fax when an order is deleted.
= The wiki page about the schema was last edited by a bot.
@ source
u The old system stores amounts in [tenths of a cent], watch the rounding. ?? In what unit does the old system store amounts?
u Customer numbers below [50000] are test data and stay behind. ?? Below which value are customer numbers test data?
a The encoding of the address dump is [CP850], not Latin-1. ?? How is the address dump encoded, if not Latin-1?
t orphan check: [6,118] orders without a customer ?? How many orders without a customer did the orphan check find?
@ target
u We load through the [bulk endpoint], the row interface is far too slow. ?? Through what do we load, given that the row interface is too slow?
u The unique key in the target is [tenant plus external id]. ?? What is the unique key in the target?
c BATCH_SIZE = [2500]  # larger batches hit the lock timeout ?? Which BATCH_SIZE do we use, as larger batches hit the lock timeout?
~c BATCH_SIZE = [800]  # lowered again after the lock timeout in the rehearsal
u Free text notes go to [a read-only archive], nobody may edit them. ?? Where do free text notes go?
@ cutover
u The freeze begins on [Friday at 18:00]. ?? From when on is the freeze, so that nobody may change data?
~u Finance closes the quarter that evening, so the freeze begins on [Saturday at 06:00].
u The person who can call it off is [Kofi], and only until midnight. ?? Who can call it off until midnight?
u If more than [0.5 percent] of the rows fail we go back. ?? What percent of the rows must fail before we go back?
a The rehearsal took [9 hours and 20 minutes] from start to finish. ?? How long did the rehearsal take from start to finish?
@ audit
u The auditors want the logs kept for [ten years]. ?? How long do we have to keep the logs for the auditors?
u Svetlana signs the reconciliation [on paper], the tool is not approved. ?? How does Svetlana sign the reconciliation?

# amateur theatre production; order=series; turns=56; tool=rehearsal_plan; row={d} scene {n} page {n} {x}
nouns: second act, spotlight, costume rail, prompt book, curtain, backdrop, sound cue, props table, programme, dressing room
names: Gwen, Mr Abara, the choir, Philippa, the stage crew
- The {x} ran {n} seconds too long again.
- {p} repaired the {x} with tape and {n} staples.
- We tried the {x} without lights on {d}.
= The costume of the butler is a waiter's jacket from Lisbon.
= A pigeon lives above the lighting bridge.
= The programme has an advertisement of the butcher on the back.
= Mr Abara built a door that opens to both sides.
= The wigs are stored in hat boxes from the fifties.
= Rehearsal biscuits are paid from the raffle.
= The local paper spelled our name wrong again.
= The piano stool squeaks in the love scene.
@ cast
u The inspector is played by [Desmond], he knows the part from school. ?? Who plays the part of the inspector?
~u Sad news, he broke his ankle, so the inspector is played by [Winifred].
u Gwen may not sing above [a high F], doctor's orders. ?? Above what may Gwen not sing?
u The twins can rehearse only [on Sundays]. ?? On which days are the twins free to rehearse?
@ stage
u The trapdoor is locked, [the council found rot in the beams]. ?? Why is the trapdoor locked?
a The hall has a limit of [16 amps] on the lighting circuit. ?? What limit has the lighting circuit in the hall?
u The sofa comes from [the hospice shop], we promised to return it clean. ?? Where does the sofa come from that we promised to return?
l gunshot: from the [left wing], one blank only ?? From where comes the gunshot?
@ evening
u Tickets cost [9 pounds], children go free. ?? What is the price of tickets for adults, if children go free?
~u The hall raised its rent, so tickets cost [11 pounds] and children go free.
u The interval comes after [scene five], not after the ball. ?? After which scene comes the interval?
u The mayor sits in seat [C12], with her guard beside her. ?? Where do we put the mayor and her guard?
t fire inspection: maximum audience [185], aisles clear ?? What maximum audience did the fire inspection give?
a The licence for the script forbids [any filming]. ?? What does the licence for the script forbid?

# novel editing; order=return; turns=60; tool=search_manuscript; row=p. {n}: "...{x}..." ({n} words)
nouns: prologue, lighthouse scene, letter, timeline, dialogue, dream, train chapter, epilogue, narrator, funeral
names: Odile, my agent, the copy editor, Casimir, Aunt Bea
- I cut {n} words from the {x} and miss none of them.
- {p} found the {x} slow around page {n}.
- The {x} could move {n} pages forward without harm.
+ I dreamt that the {x} was printed upside down in {n} copies.
= The cover shows a heron, which never appears in the book.
= I wrote the first draft in a caravan near Cork.
= A beta reader cried over the goat.
= The font of the proof is too small for my mother.
= The word suddenly occurs 61 times.
= The map at the front has the river on the wrong side.
= Casimir's hat changes from brown to black.
= I bought a typewriter and used it once.
@ characters
u Casimir lost his [ring finger] in the war, please check that it stays lost. ?? What did Casimir lose in the war?
u Odile is [thirty-four] when the story opens. ?? What is the age of Odile when the story opens?
~u The dates did not work, Odile is [twenty-nine] when the story opens.
u Aunt Bea never learns who her real father is, the answer is [the organist]. ?? Who is the real father of Aunt Bea?
a In chapter six the dog is called [Pomfret], in chapter two it had no name. ?? What is the dog called in chapter six?
@ plot
u The fire starts in [the chapel], everybody believes it was the mill. ?? Where did the fire really break out, if not in the mill?
u The letter was posted in [Valparaiso]. ?? Where was the letter posted?
u The reader must not know before [page 200] that the brothers are rivals. ?? Before which page must the reader not know that the brothers are rivals?
a The eclipse fixes the year of the story to [1927]. ?? To which year does the eclipse fix the story?
@ publishing
u The publisher wants at most [95,000] words. ?? How long may the book be at most for the publisher, in words?
u My agent asked for the manuscript by [the first of February]. ?? By when did my agent ask for the manuscript?
~a Your agent wrote again and asked for the manuscript by [the tenth of January].
u The copy editor changes every dash, tell her to [leave the dashes alone]. ?? What should we tell the copy editor about every dash?
t style sheet: numbers spelled out up to [ninety-nine] ?? Up to what are numbers spelled out in the style sheet?

# bee keeping; order=alternate; turns=52; tool=hive_scale; row=hive {n} weight {n}.{n} kg temp {n} {x}
nouns: brood frame, smoker, honey super, entrance block, sugar syrup, wax sheet, veil, bottom board, nectar, drone comb
names: the inspector, Ottilie, our mentor, the club, Bram
- The {x} in hive {n} looked clean.
- {p} would open the {x} only above {n} degrees.
- I weighed the {x} and noted {n} hundred grams.
= A woodpecker hammered a hole into the shed.
= Bram forgot his gloves and used socks.
= The lime trees flowered eight days early.
= The extractor is borrowed from a teacher in the next village.
= We planted phacelia on the strip along the road.
= The smoker went out three times because of wet hay.
= A school class visits us before the summer holidays.
= The hive tool with the yellow handle lies in the pond.
@ colonies
u The queen in the blue hive is marked [white], she is from last year. ?? How is the queen in the blue hive marked?
u The swarm from the plum tree went into [the straw hive]. ?? Which hive got the swarm from the plum tree?
u I counted [34 mites] on the board after three days. ?? How many mites did I count on the board?
~u I counted again with glasses on, it was [51 mites] on the board.
u The yellow hive is [queenless], there were no eggs at all. ?? What is wrong with the yellow hive that has no eggs?
@ treatment
a Oxalic acid only works when the colony is [free of brood]. ?? When does oxalic acid work for the colony?
u The inspector found foulbrood [two kilometres away], we are in the zone. ?? How far away did the inspector find foulbrood?
l formic acid: stop above [29 degrees], risk for the queen ?? Above how many degrees should formic acid stop?
u Ottilie reacts to stings, her pen is in [the red tin]. ?? Ottilie was stung, where is her pen?
@ honey
u The heather honey had [21.4 percent] water, too wet to sell. ?? What percent water had the heather honey?
u We sell at the [Advent market], not at the farm gate. ?? Where do we sell?
u One jar costs [7.50], the club fixed the price. ?? What is the current price of one jar, as the club fixed it?
~u The club met again, one jar costs [8.20] from now on.
t label proof: lot code format [LH-year-week] approved ?? Which lot code format was approved for the label?

# apartment renovation; order=random; turns=66; tool=measure; row=wall {n}: {n} cm x {n} cm {x}
nouns: tiles, skirting board, radiator, socket, parquet, plaster, kitchen sink, ceiling lamp, door frame, paint
names: the plumber, Jelena, Mr Kowalczyk, the electrician, the neighbour below
- The {x} will be {n} euros more than the offer said.
- {p} looked at the {x} for {n} minutes and sighed.
- We can do the {x} ourselves on {d}.
= Behind the wallpaper were newspapers from 1953.
= The skip may stand in front of number nine.
= Mr Kowalczyk sings while he sands.
= The old bathtub went to a farm as a trough.
= The doorbell plays a melody that nobody likes.
= One window handle is from brass, the others are from plastic.
= The lift carries four persons and no plasterboard.
= We found a marble in the heating pipe.
@ bathroom
u The shower drain must be [at the window side], the joists leave no choice. ?? Where must the shower drain be?
u We picked tiles called [Sea Salt Matt], thirty by sixty. ?? What are the tiles called that we picked?
~u Those are sold out, we picked tiles called [Chalk Hill] instead.
a The leak under the tub comes from a [cracked overflow gasket]. ?? Where does the leak under the tub come from?
u The plumber has time from [the 19th], for four days. ?? From when has the plumber time?
@ kitchen
u The worktop height should be [96 centimetres], I am tall. ?? How high do I want the worktop?
u The hob stays on gas, [Jelena will not cook on induction]. ?? Why does the hob stay on gas?
t circuit 7: kitchen sockets, [25 A], no residual current device ?? How many A has circuit 7 for the kitchen sockets?
u The cabinet doors are ordered from a joiner in [Bolzano]. ?? Where are the cabinet doors ordered?
@ permits
u The house committee allows noise only until [13:00] on Saturdays. ?? Until when does the house committee allow noise on Saturdays?
a Removing the wall needs a report, because [it carries the chimney]. ?? Why does removing the wall need a report?
u The structural engineer charges [640 euros] flat. ?? What does the structural engineer charge?
~u She saw the cellar too, so the structural engineer charges [910 euros] flat.
@ floor
u Under the carpet there is [larch], in better shape than we hoped. ?? Which wood did we find under the carpet?
l oil: two coats, wait [36 hours] between them ?? How long to wait between the two coats of oil?
@ money
u The bank pays out in [three instalments], against photographs. ?? How does the bank pay out against photographs?
u We keep a reserve of [6,500 euros] for surprises. ?? How much money do we keep back for surprises?
@ neighbours
u The neighbour below works nights and sleeps until [two in the afternoon]. ?? Until when does the neighbour below sleep?
u We borrowed the tile cutter from [flat eleven], it goes back with a cake. ?? From whom did we borrow the tile cutter?

# museum exhibition; order=series; turns=58; tool=catalogue; row=obj {n}/{n} {x} {n} lux
nouns: showcase, wall text, loan form, audio guide, plinth, conservation report, opening speech, floor plan, poster, crate
names: the registrar, Dr Ilunga, the lender, Saskia, the courier
- The {x} in room {n} needs a second proof.
- {p} sent the {x} back with {n} remarks.
- The {x} is insured and took {n} days last time.
+ {p} found a postcard from a visitor who came {n} times.
= The loan agreement from Basel has a coffee stain.
= A school from Namur booked the first guided tour.
= The smell station with tar was voted down.
= Our logo has to be smaller than that of the sponsor.
= The film in the last room runs without sound.
= A retired captain corrected the knots in the drawing.
= The guards would like chairs with a back.
= The gift shop ordered 300 erasers in the shape of whales.
@ loans
u The drawing from Ghent may be shown for [ten weeks] at most. ?? After how many weeks must the drawing from Ghent come down?
u The lender of the globe insists on [a courier of his own]. ?? What does the lender of the globe insist on?
u The astrolabe is a [replica], the original may not travel. ?? What is the astrolabe, as the original may not travel?
a The insurance value of the atlas is [410,000 francs]. ?? What is the insurance value of the atlas?
~a The appraiser disagrees, the insurance value of the atlas is [365,000 francs].
@ rooms
u Light on the textiles stays below [50 lux]. ?? Below what stays the light on the textiles?
u Room two begins with [the shipwreck], not with the map. ?? With what does room two begin?
t room 3 humidity alarm threshold set to [58 percent] ?? To what percent is the humidity alarm threshold in room 3 set?
u The blind visitors get a relief of [the harbour]. ?? Of what do the blind visitors get a relief?
@ opening
u The minister comes at [18:15] and leaves before the music. ?? At what time do we expect the minister, who leaves before the music?
u The catalogue is printed in [Tartu], paper from the same town. ?? Where is the catalogue printed?
~u The printer went bankrupt, the catalogue is printed in [Riga].
l wine: [only white], the carpet is on loan too ?? Which wine only, since the carpet is on loan?
u Saskia speaks instead of the director, [he lost his voice]. ?? Why does Saskia speak instead of the director?

# community radio schedule; order=alternate; turns=48; tool=playlist; row={n}:{n} track {n} {x} length {n}
nouns: jingle, morning show, microphone, studio two, news block, archive tape, mixing desk, live stream, call-in hour, licence report
names: Ebba, DJ Koroma, the volunteers, Lech, the regulator
- The {x} was {n} decibels too loud on {d}.
- {p} swapped the {x} with the one after it.
- We had {n} listeners during the {x}.
= The sofa in the studio has a broken spring.
= A listener sends a postcard every week from Skye.
= The kettle may not run while the transmitter warms up.
= DJ Koroma owns 4,000 records and no shelf.
= The red lamp outside the door was stolen in May.
= Somebody taped the word tape on the tape machine.
= The archive starts in 1994 with a recording of rain.
= A dog barked during the obituaries.
@ programme
u The poetry hour moves to [Wednesday night]. ?? To when does the poetry hour move?
u The interview with the mayor may be [repeated once], she insisted. ?? How often may the interview with the mayor be repeated?
u Ebba presents the show about [fungi], starting in autumn. ?? What is the subject of the show that Ebba presents in autumn?
a The regulator requires [35 percent] local content per week. ?? What percent local content does the regulator require?
u The football commentary is in [Tigrinya] this season. ?? In which language is the football commentary this season?
~u The commentator moved away, the football commentary is in [Kurdish] this season.
u The church pays for the Sunday slot with [free use of the tower]. ?? With what does the church pay for the Sunday slot?
@ technology
u The transmitter was tuned to [97.3] by the engineer, the old value drifted. ?? To what was the transmitter tuned by the engineer?
u The backup stream runs from [Lech's garage]. ?? Where is the machine for the backup stream?
t silence detector: switch to tape after [40 seconds] ?? After how many seconds does the silence detector switch to tape?
c const CROSSFADE_MS = [1800]; // Ebba finds less abrupt ?? Which CROSSFADE_MS does Ebba find less abrupt?
a The mast inspection failed because of [a corroded guy wire]. ?? Why did the mast inspection fail?
u The grant money has to be spent by [the end of March]. ?? By when has the grant money to be spent?
~u They extended it, the grant money has to be spent by [the end of June].

# adopting a dog; order=return; turns=50; tool=shelter_records; row=dog {n} | {n} kg | {x} | vaccinated {n} weeks ago
nouns: harness, crate, vet card, chew toy, dog school, garden fence, car ramp, food bowl, long lead, blanket
names: the shelter, Matilda, our vet, the trainer, my flatmate
- The {x} costs {n} euros in the shop at the corner.
- {p} recommends a {x} of size {n}.
- We tried the {x} for {n} minutes and nobody was hurt.
+ A delivery van blocked our street for {n} minutes and {p} walked home.
= The shelter was founded by two retired bakers.
= Matilda had a dachshund called Count Olaf.
= The pet shop sells biscuits in the shape of postmen.
= There is a meadow behind the cemetery where dogs may run free.
= Our vacuum cleaner sounds like a lorry.
= The neighbour's tortoise is older than my flatmate.
= He slept on a pizza box during the first visit.
= The bus takes dogs for the price of a child.
@ the dog
u His name at the shelter is Bruno, but we will call him [Pepper]. ?? What will we call him instead of Bruno?
u He is afraid of [men with hats], the shelter does not know why. ?? What scares him, what is the dog afraid of?
u He weighed [17.8] kilos at the last check. ?? How many kilos did he weigh at the check?
~t vet scale today: he weighed [19.2] kilos at the check, ideal 18
u He cannot digest [chicken], so read every label. ?? Which food must he not get because he cannot digest it?
a The limp comes from [an old fracture in the left paw], it is not painful. ?? Where does the limp come from?
@ home
u The landlord agreed to the dog [in writing], the letter is in the drawer. ?? How did the landlord agree to the dog?
u My flatmate walks him in the morning and [Mrs Oduya] at noon. ?? Who walks him at noon?
u The fence has a hole [behind the lilac], he will find it. ?? Where could he escape through the hole in the fence?
@ appointments
u We collect him on [the 22nd], at ten. ?? When do we collect him?
~u The shelter has a quarantine, we collect him on [the 29th], at ten.
u The second vaccination is due in [week 46]. ?? When is the second vaccination due?
l dog tax: [108] a year, half for shelter dogs ?? What do we pay each year for the dog tax?
u The trainer does not allow [retractable leads] in her class. ?? What does the trainer not allow in her class?
a The insurance starts after a waiting time of [30 days]. ?? After which waiting time does the insurance start?
`;
