/**
 * Scripts of 20 conversations for the fresh set. fresh-conversations.ts explains the notation. The scripts were written
 * without a look at the compactor and share no subject with the other sets. Changing them after a measurement would
 * make the set a tuning set.
 */
export const FRESH_SCRIPTS = `
## marathon training; turns=58; burst=2; tool=training_log; row={day} {num} min easy, heart rate {num}, {place}
people: Oyelaran, Beth, Coach Marek, Sunita, the twins
things: long run, tempo session, foam roller, hill session, rest week, stretching routine, interval plan, water belt, warm-up
places: canal path, stadium, reservoir loop, old railway, river bridge
. {who} overtook me near the {place} and did not even breathe hard.
. My legs felt heavy after {num} minutes, so I cut the {thing} short.
. For the {thing} I would stay flat, the {place} is good for that.
. One {thing} on {day} followed by one {other} is too much for most people.
. We met at {time} by the {place} and nobody had brought water.
. Slept badly, skipped the {thing}, ate toast instead.
. {who} swears by the {other}, I am not convinced.
* My sister's parrot now imitates the beep of my watch, {num} times this morning.
* Have you ever seen anybody run in a banana costume? {who} has one.
% Sunita ran her first half in 2:11 and cried at the finish.
% The vending machine at the stadium takes coins only.
% Last year's race shirt was orange and two sizes too big.
% Beth's watch shows the altitude in feet.
% My first physio had cold hands and a fish tank.
% The reservoir loop was measured with a bicycle wheel in the nineties.
% Oyelaran's trail shoes were stolen from the porch.
% Coach Marek trained as a pastry chef.
% Wave C last spring had to wait behind a wedding car.
% Sunita's employer doubles small donations, up to some limit.
% The stadium lights go off without warning at ten.
, A {thing} at low intensity is fine on {day}.
, Keep the {thing} and drop the {other} when you are tired.
, After a {thing} of {num} minutes the pulse should settle quickly.
> knee and shoes
U My physio is called <Dr Lomax> and she has a practice above the pharmacy. ?? What is the name of my physio?
U She says the trouble comes from a <tight iliotibial band>, not from the joint. ?? Where does the trouble with my knee come from according to the physio?
A From your numbers you should replace the shoes after <620 kilometres> at the latest. ?? After how many kilometres should I replace my shoes?
U I take size <44.5> in the trail pair, the road pair runs smaller. ?? Which size do I wear in trail shoes?
. The left knee clicked again by the {place}, {num} steps or so.
> race day
U Our start wave leaves at <08:50> on race morning. ?? At what time does our wave start on race day?
!U The organisers wrote again: because of roadworks our start wave leaves at <09:35>.
U Bib pick-up is in the <Corn Exchange>, only on the Saturday. ?? Where do we pick up the bibs?
T race info | bag drop closes 40 min before start | gate <F7> | finish park ?? Which gate is the bag drop at?
A With your half time, a sensible goal pace is <5:24 per kilometre>. ?? What goal pace did you suggest for the race?
. The race website is slow, I waited {num} minutes for one page.
> food and charity
U I can't stomach the <caffeine> gels, they made me sick at the reservoir. ?? Which gels make me sick?
U We are raising money for <Harbour Hospice>, where Beth's father was looked after. ?? Which charity are we raising money for?
T donations page: pledged so far <2,315 pounds>, 48 supporters ?? How much has been pledged on the donations page?
!T donations page: pledged so far <3,090 pounds>, 61 supporters
A Drink roughly <150 ml> at each station and never two cups at once. ?? How much should I drink at each station?
. I baked oat bars with {num} dates in them, {who} ate most.

## municipal election logistics; turns=60; burst=3; tool=station_register; row=station {num} | {place} | {num} voters | {thing}
people: Mrs Dlamini, the deputy clerk, Mr Aubert, Ruth, the caretaker
things: ballot box, polling booth, seal bag, voter list, notice board, ramp, tally sheet, signage, spare table
places: sports hall, parish room, primary school, fire station, bowling club
. The {thing} for the {place} came in a carton of {num} kilos.
. {who} ticked off the {thing} twice and got two results.
. At the {place} they need the {thing} before {time}.
. Somebody left the {other} in the rain behind the {place}.
. Under the handbook the {thing} may not leave the {place} on {day}.
. {who} reports that the {other} arrived, unsigned.
* It is pouring here, the office plant by the window looks happier than {who}.
* Ruth brought plum cake for all {num} of us.
% The bowling club has a bell that rings at noon.
% Someone drew a moustache on the poster at the bus stop.
% In 2019 the parish room ran out of pencils.
% The car park at the sports hall has a height limit of 2.1 metres.
% The sanding machine in the town hall broke two fuses.
% Kestrels nest on the fire station tower every year.
% One clerk is paid in another county and commutes.
% The old ballot paper had a crease that jammed the counter.
% Mr Aubert once lost a by-election by a coin toss.
% Recounts make Mrs Dlamini hum.
% The committee room has a portrait of a mayor with a ferret.
, The handbook asks for one {thing} in each station.
, For the {place}, a {thing} with {num} spare seals should do.
, I sorted the {other} entries by ward.
> polling staff
U The presiding officer at the fire station is <Graham Ilves>. ?? Who is presiding officer at the fire station?
U Poll clerks are paid <185 pounds> for the day, meals included. ?? What are poll clerks paid for the day?
!A The council passed the new scale, so poll clerks are paid <204 pounds> for the day.
A Staff training is booked for <14 April>, in the upstairs committee room. ?? What date is staff training booked for?
. {num} clerks have not returned their forms.
> ballot papers
U The ballot papers are printed by <Kestrel Print> in the next county. ?? Which company prints the ballot papers?
U For the northern ward the paper is <pale green>, so that it cannot be confused with the mayoral one. ?? What colour is the ballot paper of the northern ward?
T order 7731: ballot papers delivered to strongroom, <6 pallets>, seal intact ?? How many pallets of ballot papers were delivered to the strongroom?
A The proof had one mistake: candidate <Thorley> was spelled without the e. ?? Which candidate's name was misspelled on the proof?
. The proof has {num} pages and tiny print.
> count night
U The count takes place in the <Leisure Dome>, because the town hall floor is being sanded. ?? Where does the count take place?
U Results must be declared by the <returning officer alone>, no deputies this time. ?? Who may declare the results?
T alarm panel: strongroom code changed, new code <ends in 58>, keyholder Dlamini ?? What does the new strongroom code end in?
U Postal votes are opened from <16:00> by the second team. ?? From when are postal votes opened?
!U Mr Aubert objected, and postal votes are now opened from <18:30>.
A If the margin is under <25 votes>, a recount starts automatically. ?? Below what margin does a recount start?
. We need {num} counting tables at least.

## sailing trip; turns=54; burst=1; tool=marine_forecast; row={time} wind {num} kn, sea {num} dm, near {place}
people: Skipper Jonna, Paolo, my cousin, Hettie, the harbour master
things: mainsail, anchor chain, dinghy, life raft, chart plotter, bilge pump, fender, galley stove, boom
places: Gull Sound, the lee side, Farholm, the north quay, the sandbank
. {who} wants the {thing} checked early, and I agree.
. We motored past {place} for {num} minutes with no wind at all.
. Could the {thing} be checked before we cast off at {time}?
. The {other} squeaks whenever the boat heels.
. Near {place} the depth sounder jumped to {num} and back.
. {who} tied the {thing} with a knot that nobody could undo.
* Hettie saw a seal and gave it a name that I can't spell.
* There is a ukulele on board, sadly {who} knows {num} songs.
% The last charter crew left a tin of peaches in the locker.
% Paolo gets seasick below deck only.
% The flag on the stern is torn at one corner.
% Farholm has one shop and it shuts at lunch.
% The restaurant with the good soup has a parrot.
% Skipper Jonna learned to sail on a reservoir.
% The lock keeper grows tomatoes on the gate.
% The previous owner painted the hull in a weekend.
% The impeller failed once off Farholm, in flat calm.
% Hettie's pen ran out during the logbook exam.
% The harbour office sells ice and newspapers.
, With {num} knots the {thing} deserves a second look.
, Past {place} the current turns at about {time}.
, Stow the {other} before the {thing}.
> the boat
U Our charter boat is the <Merganser>, a sloop with a blue hull. ?? What is our charter boat called?
U Her draught is <1.85 metres>, keep that in mind for the inner basin. ?? How deep is the draught of the boat?
A The spare impeller is stowed <under the port bunk>, says the inventory. ?? Where is the spare impeller stowed?
U The charter base needs her back with the diesel tank full by <Friday noon>. ?? By when does the charter base need the boat back?
!U Good news from the charter base: they need her back only by <Saturday 10:00>.
T engine check | oil ok | hours <2,946> | belt worn slightly ?? How many engine hours did the check show?
> route and harbours
U The first night we berth in <Skarvika>, the skipper knows a restaurant there. ?? Where do we berth the first night?
A High water at the lock is at <13:42>, leave an hour before. ?? When is high water at the lock?
U The harbour office listens on VHF <channel 12>, not on the usual one. ?? On which VHF channel does the harbour office listen?
T notice to mariners: lighthouse Tarn Point <extinguished> until further notice ?? What does the notice say about the lighthouse at Tarn Point?
> crew matters
U Hettie can't eat <shellfish>, she carries a pen for it. ?? What can't Hettie eat?
U The kitty is <120 euros> per head, paid to Paolo. ?? How much is the kitty per head?
!U After the shopping trip we raised the kitty to <165 euros> per head.
A By the watch plan, the dawn watch belongs to <Paolo and Jonna>. ?? Who has the dawn watch?
!U Jonna has hurt her wrist, so the dawn watch belongs to <Paolo and Hettie>.
U My cousin brings the <satellite phone>, since his firm lends him one. ?? What does my cousin bring from his firm?

## podcast editing; turns=56; burst=4; tool=list_clips; row=clip_{num}.wav  {num} s  {thing}  take {num}
people: Lotte, Faisal, the guest, our sponsor, Wren
things: cold open, intro music, room tone, crossfade, mid-roll, closing credit, transcript, noise gate, cover art
places: the attic studio, the hallway, the rented booth, Faisal's kitchen, the train
. I listened to the {thing} on cheap earphones and it held up.
. The {thing} recorded in {place} hums at about {num} hertz.
. {who} laughs over the {other} at {time}, shall we keep it?
. Cut {num} seconds out of the {thing} and it flows.
. Honestly the {other} sounds as if it came from {place}.
. {who} sent a new {thing}, louder than the old one.
* My upstairs neighbour practises the trombone, {num} minutes of the same bar.
* Wren has dyed the studio dog's collar purple.
% We once lost an hour of tape because the card was full.
% The guest of the pilot spoke from a sauna.
% Faisal prefers headphones with a coiled cable.
% A listener in Quito sends us postcards.
% The exhibition catalogue spells rivers in Latin.
% The hydrologist owns a canoe and two theremins.
% Our first sponsor sold mattresses.
% The network's helpdesk answers in haiku on Fridays.
% Lotte recorded a whole spot with a cold, and people liked it.
% The jingle of season one was a door bell.
% Episode forty was never released.
, I moved the {thing} {num} frames to the left.
, A gentle fade on the {other} hides the cut.
, The {thing} peaks near {time} in the timeline.
> episode on lost rivers
U The lost rivers episode is <number 87> in the feed. ?? Which number in the feed is the lost rivers episode?
U It has to go online on <Tuesday 5 May> to match the exhibition. ?? When does the lost rivers episode have to go online?
!U The exhibition slipped, so lost rivers must go online on <Thursday 21 May>.
A I trimmed the hydrologist's answer at <23:17>, where she repeats herself. ?? Where did you trim the hydrologist's answer?
U The hydrologist's surname is pronounced <"Vay-shenk">, please tell the narrator. ?? How is the hydrologist's surname pronounced?
. Too many water sounds in minute {num}, if you ask me.
> sponsor and money
U The sponsor is <Tidewell Tea> for the whole spring. ?? Who is our sponsor in spring?
U They insist on a <45-second> spot, read by Lotte herself. ?? How long is the spot that the sponsor insists on?
T invoice 0412 hosting plan <29.90 USD> monthly, paid by card ?? What does the hosting plan cost per month?
A Their contract forbids mentioning <other hot drinks> within five minutes of the spot. ?? What does the sponsor's contract forbid mentioning?
. The sponsor wants a report with {num} charts in it.
> sound and files
U Masters are delivered at <-16 LUFS>, the network rejects anything louder. ?? At what loudness are masters delivered?
A The backup of the raw tracks is on the drive labelled <OTTER>. ?? On which drive is the backup of the raw tracks?
U Wren composed the new jingle in <D minor>. ?? In what key is the new jingle?
!U Wren changed her mind overnight, the jingle is now in <F sharp minor>.
T loudness scan: worst clip <interview_03b>, peak 0.4 dB over ?? Which clip was worst in the loudness scan?
. I renamed {num} files by hand, never again.

## mobile library; turns=52; burst=2; tool=loan_system; row=stop {num} | {place} | {num} loans | {num} returns | {thing}
people: Philippa, Driver Boateng, the head of branch, Mr Quill, a reader
things: large-print shelf, picture book box, audiobook rack, returns crate, wheelchair lift, route map, reading corner, scanner, heating
places: Nether Ashby, the mill, Colley Green, the care home, the crossroads
. At {place} there were {num} children and one goat.
. {who} would like a bigger {thing}, less of everything else.
. Please order {num} labels for the {thing}.
. The {other} rattles on every bend before {place}.
. We reached {place} at {time} and left late.
. {who} returned a stack from the {thing}, all of it dry this time.
* Mr Quill tells me daily that it used to snow more.
* I had soup from a flask, it tasted of the coffee of {day}.
% The horn plays two notes since the battery was changed.
% A reader at Colley Green left a marrow on the counter.
% Philippa is writing a thriller set in a car wash.
% The van's number plate spells nearly a word.
% The inspection last year failed because of a wiper.
% The mill grinds spelt for one bakery only.
% The reading group quarrels about endings.
% A barcode once turned up on a ham sandwich.
% Mrs Tansley's dog has its own library card.
% The headquarters moved into a former bank.
% The weighbridge man reads westerns.
, For {place} I planned {num} minutes.
, The {thing} could swap places with the {other}.
, Loans at {place} are slightly up.
> the vehicle
U The van must have its inspection before <30 September>. ?? Before what date must the van have its inspection?
!A The garage could only confirm an extension, so the van has its inspection before <17 October>.
U The garage that knows the lift is <Penhallow Motors>. ?? Which garage knows the lift?
T diagnostics: rear axle load <3,480 kg>, limit 3,600 kg ?? What was the rear axle load in the diagnostics?
A Tyres should be at <4.75 bar> when the shelves are full. ?? What pressure should the tyres have?
U Driver Boateng keeps the spare key in the <biscuit tin>. ?? Where is the spare key kept?
> stock and readers
U Headquarters gave us a book budget of <7,400 pounds> for the year. ?? How big is the book budget from headquarters?
U The reading group on board chose <The Salt Orchard> for winter. ?? Which book did the reading group choose for winter?
!U They voted again, and the reading group will do <A Clock for Marlow> for winter.
T overdue report: longest overdue <"Knots and Splices">, 412 days ?? Which title is longest overdue in the report?
A Fines are waived for everyone under <sixteen>, according to the new policy. ?? Under what age are fines waived?
U Mrs Tansley is housebound; her books go <through the kitchen window>. ?? How do the books get to Mrs Tansley?
U At the mill we may park only <beside the weighbridge>. ?? Where may we park at the mill?
A The new barcode range starts at <B-660210>. ?? Where does the new barcode range start?

## translation agency; turns=62; burst=2; tool=job_board; row=job {num}-{num} | {num} pages | {thing} | due {day}
people: Ottilie, the client, our Finnish reviser, Tariq, accounting
things: glossary, style guide, patent claim, subtitle file, user manual, invoice run, sworn stamp, memory export, test piece
places: the Lisbon office, the portal, the shared drive, the court, the trade fair
. {who} found {num} segments in the {thing} that say nothing.
. Is the {thing} on {place} the current one or an older copy?
. The {other} came back with comments in three colours.
. I would not promise the {thing} before {day} {time}.
. {who} bills by the line and the {other} has {num} of them.
. {place} was down, hence the delay with the {thing}.
* Tariq collects menu mistakes, today's is "fried lawyer with rice".
* I dreamt in Portuguese, with subtitles {num} seconds late.
% The old glossary has two entries for gasket.
% Ottilie is on a train without reception.
% The test piece of 2021 was about yoghurt.
% Someone in accounting signs with a drawing of a fish.
% The turbine on the trade fair stand was made of cardboard.
% The court's canteen is better than ours.
% Slovak has a lovely word for strawberry.
% The broadcaster cancelled a quiz show in spring.
% Freelancers in Lisbon meet in a laundrette.
% The insurance broker writes in verse.
% The witness room has no windows.
, The {thing} has {num} inconsistent terms, I listed them.
, For the {other} a second pair of eyes would be wise.
, I aligned the {thing} with the {other}.
> turbine manuals
U The turbine client insists that we render "blade root" as <Schaufelfuss>. ?? How must we render "blade root" for the turbine client?
U Deadline for the turbine manuals is <9 November>. ?? What is the deadline for the turbine manuals?
!U The turbine people moved the deadline, it is <26 October> and they won't budge.
T word count turbine set: total <184,220>, repetitions 31 percent ?? What is the total word count of the turbine set?
> court documents
U The court accepts stamps only from <Irena Halas>, she is sworn for Slovak. ?? Whose stamp does the court accept for Slovak?
A The court file has reference <4 Cg 118/26>, please put it on every page. ?? What reference does the court file have?
U The witness statement stays <anonymous>, so initials have to go. ?? How does the witness statement have to stay?
> subtitle project
U Subtitles may have at most <37 characters> in a line for this broadcaster. ?? How many characters may a subtitle line have?
!A The broadcaster's new sheet allows subtitles of <42 characters> in a line.
U The series is called <Quiet Engines>, eight parts. ?? What is the series called that we subtitle?
T frame rate detected: <23.976>, drop frame no ?? What frame rate was detected?
> rates and people
U We pay freelancers <0.11 euros> per word since spring. ?? What do we pay freelancers per word?
U Our Finnish reviser is away until <mid-August>. ?? Until when is the Finnish reviser away?
A The cheapest insurance quote came from <Norvanta>, with a deductible. ?? Who gave the cheapest insurance quote?

## ceramics studio; turns=56; burst=1; tool=kiln_controller; row=step {num}: ramp {num} C/h hold {num} min, {thing}
people: Yuki, Mr Oduya, the evening class, Saskia, the apprentice
things: celadon glaze, kiln shelf, wax resist, wheel, test tile, slip bucket, drying rack, teapot lid, cone pack
places: back room, courtyard, shop window, damp cupboard, spray booth
. {who} left the {thing} in the {place} overnight, and it cracked.
. After {num} hours the {thing} still felt cold to the touch.
. Let's weigh the {other} again, {num} grams seems off.
. Mugs from the {place} sell better than bowls, says {who}.
. Try the {thing} thinner, then thinner again.
. {day}: {other} cleaned, floor mopped, nobody hurt.
* Yuki's toddler made a hedgehog with {num} spikes and it survived the firing.
* The radio in the studio gets one station, and it loves accordions.
% The courtyard tap freezes in January.
% The apprentice prefers porcelain and suffers for it.
% An old kiln post serves as a door stop.
% The evening class once made 40 identical frogs.
% The electrician plays the tuba.
% Saskia's red failed nine times in a row.
% The cheese stall gives away rinds for dogs.
% The old kiln came from a school in Delft.
% The crane of the neighbour dripped oil on the yard.
% Espresso was spilled over the order book.
% The ash comes from apple wood, mostly.
, A slower cooling may save the {thing}.
, I would test the {other} on {num} tiles first.
, Keep the {thing} away from the {place}.
> the new kiln
U The new kiln runs on <three-phase 32 amp>, the electrician has to pull a cable. ?? What supply does the new kiln run on?
U The thermocouple is a <type S>, do not order the other one again. ?? Which type of thermocouple do we order?
A For the first bisque, the kiln should climb no faster than <60 degrees per hour>. ?? How fast may the kiln climb in the first bisque?
T controller log: peak reached <1,223 C> at 03:12, error none ?? Which peak did the controller log?
U The kiln is delivered by <Brandt Thermal> with a crane. ?? Who delivers the kiln?
> glaze recipes
U Saskia's blue has <1.5 percent> cobalt carbonate in it. ?? How much cobalt carbonate does Saskia's blue have?
!U Too dark. Saskia's blue has <0.8 percent> cobalt carbonate from this batch on.
U Never put the tin white next to <chrome green>, it turns pink. ?? What turns the tin white pink?
A Sieve the ash glaze through <80 mesh>, twice. ?? Through which mesh do we sieve the ash glaze?
T shop stock: nepheline syenite <2.4 kg> left, reorder suggested ?? How much nepheline syenite is left?
> spring market
U Our stall at the spring market is <C19>, next to the cheese. ?? Which stall number do we have at the spring market?
!U They shuffled the plan: our stall at the spring market is <A04>.
U Espresso cups go for <18 euros> each this year. ?? What do espresso cups cost this year?
A The market's card reader is registered to <Mrs Vesely>. ?? To whom is the card reader registered?
U Insurance wants the shelves <screwed to a frame> before we open. ?? What does the insurance want done with the shelves?

## housing co-operative; turns=60; burst=3; tool=ledger; row={day} unit {num}: {num}.00 paid, {thing}
people: Chairwoman Osei, Mr Halvorsen, the treasurer, unit nine, Delphine
things: bike shed, roof membrane, laundry rota, reserve fund, intercom, rule book, lift contract, stairwell paint, recycling bin
places: courtyard, boiler room, basement, lobby, roof terrace
. {who} objects to the {thing}, as at every meeting.
. The {thing} was voted on, {num} in favour, nobody awake against.
. Noise from the {place} until {time} again.
. Would you draft a polite note about the {other}?
. According to {who} the {thing} was never part of the deal.
. Water in the {place}, {num} buckets, source unknown.
* Delphine's sourdough starter has a name plate on the door.
* There was a fox by the {place}, calm as a landlord.
% The founding document is framed upside down.
% The lobby clock runs nine minutes fast on purpose.
% Unit nine owns three pianos.
% A pigeon nests behind the intercom.
% The previous boiler had a nickname, Bertha.
% The fourth floor has the best echo.
% The auditor before that kept bees on his balcony.
% The ferry stopped running but the chapel kept the name.
% Pets were banned until 1996.
% The scaffold of the house opposite fell in a storm.
% A lift button was replaced with a jam jar lid.
, I drafted a note about the {thing} for {who}.
, The bylaws mention the {other} only once.
, The {place} needs a second estimate.
> heating
U The board chose <Vantor> to replace the boiler. ?? Who will replace the boiler?
U Heating will be off from <12 June>, for eleven days. ?? From what date will the heating be off?
!A The contractor wrote back: heating will be off from <3 July>, same duration.
T meter boiler room: gas <77,120.4> m3, read by Halvorsen ?? What was the gas meter reading in the boiler room?
. The boiler room is {num} degrees, bring a hat.
> finances
U The monthly charge rises to <412 euros> for a two-room unit. ?? To what does the monthly charge rise for a two-room unit?
A The reserve must hold at least <six months of costs>, the auditor insists. ?? How much must the reserve hold at least?
U Our auditor is <Lindgren Pate>, the cheap one retired. ?? Who is our auditor?
> new members
U The sunny flat on the fourth floor goes to <the Baptiste family>. ?? Who gets the flat on the fourth floor?
U The waiting list is closed at <thirty names>. ?? At what length is the waiting list closed?
T vote record 22-B: pets allowed, exception <reptiles>, carried ?? What is the exception in the vote about pets?
> repairs
U The leak in the stairwell comes from <a cracked downpipe>. ?? Where does the leak in the stairwell come from?
U The lift inspector comes on <Wednesday the 8th>. ?? When does the lift inspector come?
!U The lift inspector is ill and comes on <Monday the 20th>.
A The scaffold permit is <SC-2207>, show it when the police ask. ?? What is the number of the scaffold permit?
> annual meeting
U For the annual meeting we rented the <Ferry Chapel>. ?? What did we rent for the annual meeting?
A A quorum needs <23 members> in the room. ?? How many members does a quorum need?

## choir tour; turns=56; burst=2; tool=tour_sheet; row={day} {time} {place} bus {num} seats, {thing}
people: Maestro Ilić, the altos, Bronwen, our host, Anselm
things: folder crate, riser, tuning fork, encore, warm-up, concert dress, programme note, keyboard, banner
places: Ljubljana, the cathedral, the hostel, the parish hall, Trieste
. {who} came in {num} bars early and smiled through it.
. The {thing} stayed behind in {place}, of course.
. In {place} we rehearse at {time}, no heating.
. Can the {other} be carried by two people?
. {who} asks for the {thing} in larger print.
. Bar {num} is still flat, the {other} won't help.
* Anselm lost a contact lens in the goulash.
* We sang happy birthday to a tram driver, in {num} parts.
% The bus has curtains with little anchors.
% Bronwen collects organ postcards.
% In Trieste it blew so hard that the risers moved.
% One of the tenors proposed to his girlfriend at a lay-by.
% The cathedral organ has a stop called cuckoo.
% Herr Moser sings bass in the shower.
% The motet was printed with two page sevens.
% A motorway café refused to believe we were a choir.
% Collection plates there are made of copper.
% The hostel was a sugar factory.
% The bassoonist of the host orchestra is a dentist.
, The {thing} fits under the seats.
, In {place}, allow {num} minutes for the {other}.
, Sing the {thing} once in the morning and not again.
> repertoire
U The opening piece is Rheinberger's <Abendlied>, sung from the aisles. ?? What is the opening piece?
!U Change of plan from the maestro: the opening piece is Byrd's <Haec Dies>.
U We sing the motet in <A flat>, half a tone lower than printed. ?? In which key do we sing the motet?
A The solo in the spiritual goes to <Ngozi>, after yesterday's audition. ?? Who has the solo in the spiritual?
> travel
U The coach company is <Alpenlinie>, driver Herr Moser. ?? Which coach company drives us?
T border crossing sheet: <46 passengers>, 3 instruments, checked ?? How many passengers are on the border crossing sheet?
U The coach leaves from the <tax office car park>, because the school is closed. ?? Where does the coach leave from?
A The motorway sticker is valid until <19 July>. ?? Until when is the motorway sticker valid?
> lodging
U In the hostel, lights out is at <23:15>, and they mean it. ?? When is lights out in the hostel?
U Bronwen needs a <ground-floor room> on account of her hip. ?? What kind of room does Bronwen need?
T booking confirmation hostel: code <QX7-LARK>, 12 rooms, breakfast ?? What is the booking code of the hostel?
!T booking confirmation hostel: replaced, code <MB2-WREN>, 13 rooms, breakfast
> concerts and money
U The cathedral takes <20 percent> of the collection. ?? What share of the collection does the cathedral take?
A Recording in the cathedral is allowed <without flash or tripod> only. ?? Under what condition is recording allowed in the cathedral?
U Each singer pays <540 euros> for the tour. ?? How much does each singer pay for the tour?

## bakery; turns=54; burst=1; tool=oven_report; row=deck {num} {num} C {thing} batch {num}
people: Noor, old Mr Bassett, the night baker, Camille, the flour rep
things: rye sourdough, brioche, proofing basket, seeded roll, counter display, focaccia, sugar glaze, egg wash, poppy plait
places: the counter, the cold room, the market stand, the loading bay, the café next door
. The {thing} from tray {num} stuck, the rest sold by {time}.
. {who} says the {thing} wants more salt. Everybody wants more salt.
. Don't put the {other} in {place}, it sweats.
. Sold out of {thing} on {day}, though nobody at {place} knew.
. Quick one: is the {other} vegan or not?
. {who} dropped a tray of the {thing}, we ate the evidence.
* A wasp has moved into the window, the regulars call it Gerald.
* Camille hums the same advert for {num} hours at a stretch.
% The mixer was bought from a hospital kitchen.
% Old Mr Bassett still asks for lardy cake.
% The till prints the wrong year on receipts.
% A film crew bought all our éclairs as props.
% The hotel's cook used to be our apprentice.
% A pupil painted the school order list with hearts.
% The hinge on the back door sings.
% The silo was hit by a delivery bike.
% Country music is banned before six.
% Ginger biscuits were a flop in June.
% The hygiene inspector collects spoons.
, The {thing} would keep for {num} hours.
, Prove the {other} a little longer on {day}.
, I halved the amounts for the {thing}.
> wholesale
U The hotel takes <240 rolls> every weekday. ?? How many rolls does the hotel take every weekday?
!U From next month the hotel takes <310 rolls> every weekday, they bought the annexe.
U The school order must be free of <sesame>, two pupils react to it. ?? What must the school order be free of?
A Our invoice terms with the hotel are <21 days net>. ?? What are our invoice terms with the hotel?
U The delivery van gets a new driver, <Leopold>, from the agency. ?? Who is the new driver of the delivery van?
!U Leopold quit after a day, the new driver of the delivery van is <Ulrike>.
> oven and machines
U The stone oven loses heat through <the left door hinge>. ?? Through what does the stone oven lose heat?
T service ticket 5561: part ordered <burner relay BR-9>, wait 8 days ?? Which part was ordered on the service ticket?
A Descale the steam unit every <500 cycles>. ?? How often do we descale the steam unit?
U The flour silo is rented from <Hexam Grain> until we can afford our own. ?? From whom do we rent the flour silo?
> recipes and shop
U Hydration of the country loaf is <74 percent> in summer. ?? What hydration does the country loaf have in summer?
!A After the trial bake I suggest, and you agreed, hydration of the country loaf at <71 percent> in summer.
U The starter is fed at <04:20>, before anything else. ?? When is the starter fed?
U The shop stays shut on <Mondays> as of autumn. ?? On which day does the shop stay shut?
T hygiene visit result: grade <4 of 5>, remark drains ?? What grade did the hygiene visit give?
U The secret in the ginger cake is <black cardamom>. ?? What is the secret in the ginger cake?

## chess tournament; turns=58; burst=4; tool=pairings; row=board {num} round {num} {num}-{num} {thing}
people: Arbiter Kovačs, Leila, the junior captain, Fedor, the sponsor's wife
things: clock, score sheet, pairing list, analysis board, demo board, tie-break table, live feed, bye request, name plate
places: main hall, side room, foyer, canteen, stage
. Board {num} finished after {num} moves with a shrug.
. {who} complains that the {place} is cold.
. Please print the {thing} again, {num} copies.
. A phone rang in the {place} at {time}; it was {who}'s.
. The {other} broke down in round {num}, we restarted it.
. Nobody looks at the {thing} before asking about the {other}.
* Fedor brought a pickled herring sandwich into the {place}.
* My grandfather claims that he once drew with Smyslov.
% The trophies were engraved with last year's date.
% The canteen lady beats most of the juniors.
% A bishop from set four has been missing since 2017.
% Two brothers were paired in round one and both sighed.
% The arbiter's whistle is confiscated property.
% The fountain pen was a gift from a stationer.
% Round two was once interrupted by bees.
% A tactile map of the town stands in the foyer.
% The grandmaster of 2012 left his coat here.
% The caretaker's dog knows the Sicilian, he says.
% Brilliancy is in the eye of the loser.
, The {thing} for round {num} is ready to print.
, With {num} players, the {place} is large enough.
, I corrected two spellings on the {other}.
> rules and schedule
U Time control is <90 minutes plus 30 seconds>, as in the league. ?? What is the time control?
U Round five begins at <10:00>, on the Sunday. ?? When does round five begin?
!A As announced by the arbiter, round five begins at <09:15>, because of the prize giving.
U Default time is <fifteen minutes>, after that the game is lost. ?? What is the default time?
A The first tie-break is <Buchholz cut one>. ?? Which tie-break comes first?
. The schedule on the door has {num} mistakes.
> players
U Top seed is <Mirela Danciu>, she confirmed last night. ?? Who is the top seed?
!U The grandmaster cancelled, so the top seed is now <Jasper Whitlock>.
U One player, <Mr Ferrante>, is blind and brings a tactile board. ?? Which player is blind and brings a tactile board?
T entry list: <118 paid>, unpaid 9, withdrawn 3 ?? How many on the entry list have paid?
U The youngest entrant is <six years> old. ?? How old is the youngest entrant?
. {num} players want a vegetarian lunch.
> prizes and venue
U First prize is <1,500 crowns> and a fountain pen. ?? How much money is the first prize?
!U The bank has added something, first prize is <2,200 crowns> and still the pen.
A The brilliancy prize is judged by <Dr Sebald>, from the club. ?? Who judges the brilliancy prize?
U The caretaker locks the building at <22:40> sharp. ?? When does the caretaker lock the building?
T wifi voucher: network hall-guest, password <rook7castle>, 3 days ?? What is the wifi password in the hall?
. Chairs from the {place} have to go back by {time}.

## film archive; turns=58; burst=2; tool=reel_index; row=can {num} | {num} m | {thing} | shelf {num}
people: Margit, the projectionist, Professor Acheampong, the intern, Luc
things: nitrate reel, splice, leader, edge code, optical track, scanner gate, lab report, trailer, newsreel
places: vault two, the bench, the screening room, the depot, the corridor
. Shrinkage of {num} permille on the {thing}, nothing dramatic.
. {who} smelled vinegar in {place} and opened every can.
. The {thing} has {num} repairs, most of them with household tape.
. Would the {other} survive another pass? I doubt it.
. {who} swears that the {other} in {place} is a dupe.
. Can {num} was empty, apart from a tram ticket.
* The intern asked what a VHS is and Luc had to sit down.
* Lunch was lentils again, day {num} of lentils.
% There is a wasps' nest in a 1931 film can.
% The projectionist keeps a bowler hat for premieres.
% The depot floods when the brewery cleans its tanks.
% A street in reel three is gone since the war.
% The glassmaker in reel two is a real baker.
% A letter from overseas had a beautiful stamp.
% The harmonium of the chapel has mice.
% The fire drill ended in the brewery.
% The ministry sent the same letter twice.
% The mirror room in the castle scene is a painted flat.
% The lab's cat is called Fixer.
, The {thing} matches the {other} frame by frame.
, I listed {num} cans with doubtful labels.
, For {place} a new label would help.
> The Glassmaker's Daughter
U The earliest print of The Glassmaker's Daughter dates from <1923>. ?? From which year is the earliest print of The Glassmaker's Daughter?
!U Margit read the edge code: the earliest print of The Glassmaker's Daughter dates from <1919>.
U The missing act turned up in <Montevideo>. ?? Where did the missing act turn up?
A Correct projection speed is <18 frames per second>, judging by the walking scene. ?? What projection speed is correct?
U The intertitles were tinted <amber>, except in the fire scene. ?? In which colour were the intertitles tinted?
T scan job 88: resolution <4K overscan>, gate wet, status done ?? At which resolution was the scan job done?
U Rights belong to <the Esterhaus estate>, they answer by letter only. ?? Who owns the rights?
> vault and budget
U The vault has to stay at <5 degrees>, humidity thirty. ?? At what temperature does the vault have to stay?
!A According to the new guideline the vault has to stay at <2 degrees>, humidity thirty.
T sensor V2: dew point alarm at <02:47>, cleared by hand ?? When was the dew point alarm in the vault?
A The grant closes on <31 January>, electronic form only. ?? When does the grant close?
!A The ministry prolonged it, and the grant closes on <14 February>.
U Fire code limits nitrate to <200 kilos> in one room. ?? How much nitrate does the fire code allow in one room?
U The premiere will be accompanied by <a harmonium>. ?? Which instrument will accompany the premiere?
A The silver recovery is done by <Argenta Lab>, they pay by weight. ?? Who does the silver recovery?

## satellite ground station; turns=60; burst=3; tool=pass_report; row={"pass": {num}, "elevation": {num}, "note": "{thing}"}
people: Hideo, Operator Salgado, Anneke, the night desk, mission control
things: downlink, uplink amplifier, tracking loop, antenna feed, pass schedule, receiver, spectrum plot, clock reference, radome
places: dish one, dish three, the shelter, the ridge, the ops room
. Pass {num} was clean up to {num} degrees, then rain.
. {who} restarted the {thing} at {time} and it locked.
. I see noise on the {other} whenever {place} points south.
. Could you plot the {thing} for the last {num} passes?
. {who} logged the {thing} as nominal, which is generous.
. Ice on {place}, {num} minutes of heating.
* A fox sleeps under {place} and triggers the camera each {day}.
* Anneke's birthday balloon looked like debris on the monitor.
% The coffee machine shares a fuse with the spare modem.
% A shepherd asked if the dish can find his sheep.
% The road to the ridge has 31 bends.
% The night desk watches cooking shows.
% Petrel was named by a school class.
% Dunlin carries a poem on a chip.
% The crane driver is afraid of heights.
% The ministry paid for the fence and forgot the gate.
% The gearbox of dish one came from a ferry.
% The licence plate of the truck says ORBIT.
% The beacon on the ridge is for hikers.
, The {thing} recovered {num} seconds after the fade.
, I compared the {other} with pass {num}.
, The {thing} looks nominal from {place}.
> satellite Petrel
U Petrel's beacon sits at <401.52 MHz> since launch. ?? At which frequency is Petrel's beacon?
U Her battery two is <degraded to half> and must not be discharged. ?? What is the state of Petrel's battery two?
!T {"sat": "Petrel", "battery two": "<isolated from the bus>", "by": "mission control"}
A The safest window for the Petrel upload is orbit <11,804>. ?? Which orbit is safest for the Petrel upload?
. Petrel tumbled {num} degrees, then stopped.
> satellite Dunlin
U Dunlin's owner is the <University of Tromvik>. ?? Who is the owner of Dunlin?
T {"sat": "Dunlin", "lost frames": "<1,377>", "cause": "interference"} ?? How many frames did Dunlin lose?
U Dunlin will be deorbited in <October 2031>. ?? When will Dunlin be deorbited?
. Dunlin was {num} seconds late over the ridge.
> dish maintenance
U The azimuth gearbox on dish three takes <Molub 460> oil. ?? Which oil does the azimuth gearbox take?
A Wind limit for dish three is <72 km/h>, stow above it. ?? What is the wind limit for dish three?
!U Hideo reinforced the mount; the wind limit for dish three is <85 km/h> now.
U The crane is booked with <Sorvik Lift>, cash on arrival. ?? With whom is the crane booked?
> licences
U Our spectrum licence ends on <28 February>. ?? When does our spectrum licence end?
A The regulator's contact is <Ms Haverkamp>, second floor. ?? Who is the contact at the regulator?
> people and shifts
U Operator Salgado can't work <nights>, doctor's orders. ?? What can't operator Salgado work?
U The visitors from the ministry come at <14:25>. ?? At what time do the visitors from the ministry come?

## vineyard; turns=60; burst=2; tool=cellar_book; row=tank {num}  {num} Oe  {num} C  {thing}
people: Ottmar, the agronomist, Lucie, our neighbour Pfeil, the pickers
things: trellis wire, press, barrel cellar, cover crop, bird net, must, cork order, sprayer, pump hose
places: upper slope, chapel plot, east terrace, yard, river plot
. {who} tasted the {thing} in the {place} and made a face.
. Rain of {num} millimetres on the {place}, the {thing} can wait.
. If the {other} isn't mended by {day}, we pick without it.
. Rows {num} to {num} look tired, no idea why.
. The {thing} costs more than the {other}, and lasts less.
. At {time} the fog sat on the {place} like a lid.
* Lucie's donkey ate {num} labels, the good paper ones.
* The village band rehearses next door, they know one waltz.
% Ottmar's grandfather planted the walnut by the gate.
% The tractor starts only when it is spoken to.
% A wedding party once picked a whole row by mistake.
% The chapel plot has a bench with a view of two countries.
% The schoolhouse bell still rings at eight.
% A heron robbed the pond at the yard in spring.
% Osaka sent a calendar with cats.
% The river plot belonged to a monastery.
% The cooper's daughter plays handball.
% The medal of 2009 is used as a coaster.
% Pickers from the north sing louder.
, The {thing} should rest for {num} days.
, On the {place}, wait with the {other}.
, I noted {num} for the {thing}, roughly.
> harvest
U Picking on the chapel plot starts on <18 September>. ?? When does picking on the chapel plot start?
!U The sugar isn't there yet, picking on the chapel plot starts on <25 September>.
U The pickers sleep in <the old schoolhouse> this year. ?? Where do the pickers sleep this year?
A For the Riesling wait until <88 Oechsle>, the forecast allows it. ?? How many Oechsle should we wait for with the Riesling?
U We pay the pickers <13.20 euros> an hour. ?? What do we pay the pickers an hour?
T lab slip river plot: acidity <9.1 g/l>, pH 3.05 ?? What acidity did the lab find for the river plot?
> cellar
U Tank seven leaks at <the lower valve>. ?? Where does tank seven leak?
A Rack the Pinot after <nine weeks> on the lees. ?? After how long should the Pinot be racked?
U The barrels come from the cooper <Taransky>, medium toast. ?? Which cooper do the barrels come from?
!U That cooper went out of business; the barrels come from cooper <Dumarchand> instead.
T sulphur check tank 4: free <28 mg/l>, ok ?? How much free sulphur did tank 4 have?
> sales
U The importer in Osaka wants <1,800 bottles> of the white. ?? How many bottles does the importer in Osaka want?
!T mail import: importer Osaka, order raised, <2,400 bottles>, white
U The new label shows <a heron>, Lucie drew it. ?? What does the new label show?
A The tasting medal we won was <silver in Graz>, nothing else. ?? Which medal did we win at the tasting?

## robotics class; turns=56; burst=1; tool=serial_monitor; row=t={num} motor={num} dist={num} {thing}
people: Ms Abara, Tilly, group four, Kasper, the janitor
things: line follower, gripper, battery pack, servo horn, worksheet, chassis, colour sensor, maze, wheel hub
places: workshop, gym, corridor, lab bench, assembly hall
. Group {num} built a {thing} that only turns left.
. {who} asked whether the {thing} may be glued. No.
. We lost {num} screws in the {place}, as every {day}.
. The {other} works on the {place} but nowhere else.
. Hand out the {thing} at {time}, collect it before the bell.
. {who} set {other} speed to {num} and it left the table.
* Tilly named her robot Sir Bumps and wrote {num} verses about him.
* There was fish for lunch, the whole {place} knows.
% The glue gun is chained to the table since May.
% A robot from 2016 still lives in the cupboard.
% Kasper can solve a cube behind his back.
% The projector shows everything slightly green.
% The college has a lift that robots may use.
% Newts live in the school pond.
% The exam hall smells of floor polish.
% The printer in the office is as loud as a tractor.
% The buzzer was banned from assembly.
% The ramp is made of an old wardrobe.
% Lesson two had to be held in the gym.
, A smaller {thing} turns faster.
, Reduce the {other} gain by {num} and try once more.
, Check the {thing} with the meter first.
> competition
U The regional competition is held in <Eastmere>, at the college. ?? Where is the regional competition held?
U A robot may weigh <1.2 kilos> at most in the competition. ?? How much may a robot weigh in the competition?
!A The revised rule book says a robot may weigh <950 grams> at most in the competition.
U Our team name is <Copper Newts>, voted by hands. ?? What is our team name?
A Teams get <three attempts> on the ramp, the best one counts. ?? How many attempts do teams get on the ramp?
> lessons
U Lesson six is about <interrupts>, no slides please. ?? What is lesson six about?
U The exam counts for <40 percent> of the mark. ?? How much does the exam count?
T calibration class set: threshold <black 317>, white 842 ?? What is the threshold for black in the calibration?
A For the buzzer, wire it to pin <D11> so that the timer stays free. ?? Which pin should the buzzer be wired to?
> equipment
U The chargers must be unplugged by <the lab assistant> each evening. ?? Who unplugs the chargers each evening?
U Parts are ordered from <Brightcog>, they accept school invoices. ?? Where are parts ordered from?
!U The school changed supplier, parts are ordered from <Nordbit> now.
T stock shelf B: <14 gear motors>, 5 of them broken ?? How many gear motors are on the stock shelf?
> pupils and parents
U Kasper has permission to leave at <14:10> on Thursdays. ?? When may Kasper leave on Thursdays?
!U His train was rescheduled, Kasper may leave at <13:35> on Thursdays.
U A parent, <Mrs Ohlsson>, will print wheels for us. ?? Which parent will print wheels?
A The consent form has to mention <photographs>, otherwise no film. ?? What does the consent form have to mention?

## mountain rescue exercise; turns=58; burst=3; tool=radio_log; row={time} call sign {num} at {place}, {thing}
people: Reinhild, the pilot, Doc Pereira, team two, young Matti
things: stretcher, rope bag, avalanche probe, head torch, winch cable, first-aid pack, vacuum mattress, snow anchor, tea urn
places: the saddle, the hut, the north gully, the bridge, the car park
. {who} carried the {thing} to {place} in {num} minutes.
. Visibility at {place} was {num} metres at {time}.
. Nobody signed for the {thing}, please ask {who}.
. On {day} we repeat it without the {other}.
. Team {num} radioed from {place} and was hard to hear.
. The {other} froze stiff, next time it goes into a bag.
* Matti's hat blew off {place} and is in another country now.
* The hut keeper tells the story of the marmot to all {num} newcomers.
% The dummy is called Horst and has lost an arm.
% Two hikers thought the exercise was real and brought blankets.
% The bridge has a plaque from 1887.
% Reinhild's thermos survived a fall of forty metres.
% The waterfall freezes blue.
% A raven stole the pilot's glove.
% The sawmill makes skis on the side.
% The fire brigade won the tug of war.
% Channel numbers were once painted on the rocks.
% The casualty of last year fell asleep.
% The doctor's dog passed the avalanche test.
, From {place} the {thing} takes {num} minutes.
, I would send the {other} with the first team.
, Visibility at {place} should improve by {time}.
> scenario
U The make-believe casualty lies <below the second waterfall>. ?? Where does the casualty of the exercise lie?
U The alarm goes out at <05:40>, nobody is told before. ?? At what time does the alarm go out?
!U Because of the fog warning the alarm goes out at <07:05>.
A The injury on the casualty card reads <open femur fracture>. ?? What injury is on the casualty card?
U Code word to stop the exercise is <Edelweiss>. ?? What is the code word to stop the exercise?
!U Too long for the radio, the code word to stop the exercise is <Paprika> instead.
> helicopter
U The pilot refuses loads above <270 kilos> at that height. ?? Which loads does the pilot refuse?
T flight desk: helicopter call sign <Raven 6>, fuel 80 min ?? What is the call sign of the helicopter?
A The landing spot is marked with <a yellow tarpaulin>. ?? What is the landing spot marked with?
> radio
U Relay channel is <K-17>, the usual one has echoes. ?? Which is the relay channel?
!A Test done: the relay channel is <K-23>, the first choice was jammed.
T repeater status: battery <11.9 V>, uptime 40 d ?? What voltage does the repeater battery have?
> people
U Doc Pereira is replaced by <Dr Ansgar Blum> for the weekend. ?? Who replaces Doc Pereira?
U Team two meets at <the sawmill>, not at the station. ?? Where does team two meet?
> after the exercise
U The debrief is in <the fire brigade canteen>, with dumplings. ?? Where is the debrief?
A The written report is due within <ten days>, says the association. ?? Within what time is the written report due?

## family history research; turns=54; burst=2; tool=search_register; row=folio {num} | entry {num} | {thing} | {place}
people: Aunt Verity, the archivist, cousin Emmett, Father Donal, a volunteer
things: baptism register, ship list, census sheet, gravestone photo, family bible, land deed, passport, letter bundle, obituary
places: Kilbrannan, Halifax, the parish, Leith, the county archive
. {who} sent a photo of the {thing}, upside down.
. Folio {num} of the {thing} is stained and unreadable.
. There were {num} families of that name in {place}, apparently.
. I spent {day} on the {other} and found a recipe for soap.
. According to {who} the {thing} was lost in {place}.
. The {thing} and the {other} contradict each other by {num} years.
* Aunt Verity's cat walked across the family tree and added a branch.
* The bus to {place} was {num} minutes late, I read half a novel.
% A great-uncle won a ram at a fair.
% Every second man in the tree is called John.
% The archive allows pencils only.
% The bible smells of smoke and lavender.
% The star on the family crest is a misprint.
% Halifax has two archives and neither likes the other.
% Grandmother's shop sold ribbons and paraffin.
% The barn owl in the parish has its own committee.
% A tractor appears in every second photo.
% The twin sister of Emmett's wife paints boats.
% Father Donal supports a team that never wins.
, Folio {num} may be worth a second look.
, The {thing} was probably copied from the {other}.
, Registers from {place} are often incomplete.
> the emigrants
U Great-grandfather sailed on the <Caledonian Star>. ?? On which ship did great-grandfather sail?
U He arrived in Halifax in <1884>, aged nineteen. ?? In which year did he arrive in Halifax?
!A The manifest settles it, he arrived in Halifax in <1887>, aged twenty-two.
T manifest line 61: occupation <cooper>, destination Truro ?? What occupation is on the manifest?
U He changed the surname from <Macgillvarn> at the border. ?? From which surname did he change?
> the Leith branch
U Grandmother's maiden name was <Ainslie-Roe>. ?? What was grandmother's maiden name?
A Her house in Leith was <number 33> on Cobbler's Wynd. ?? Which number was her house on Cobbler's Wynd?
U The twin brother died of <typhus>, aged four. ?? What did the twin brother die of?
T burial index: plot <J-208>, stone broken ?? Which plot is in the burial index?
> DNA and relatives
U The closest match is a lady in <Dunedin>. ?? Where does the closest DNA match live?
A You share <212 centimorgans> with her, so second cousins. ?? How many centimorgans do I share with the match?
U Cousin Emmett's password hint is <first tractor>. ?? What is cousin Emmett's password hint?
> reunion
U The reunion takes place on <2 August>. ?? On what date does the reunion take place?
!U Too many clashes, the reunion takes place on <23 August>.
U Father Donal lends us <the tithe barn> for the reunion. ?? What does Father Donal lend us?

## swimming pool operations; turns=52; burst=4; tool=water_report; row={time} pool {num} chlorine 0.{num} temp {num} {thing}
people: Lifeguard Tamsin, the supervisor, Goran, the swim club, a parent
things: sand filter, lane rope, diving board, dosing pump, locker key, shower, wristband, hoist, cover
places: plant room, toddler pool, steam room, reception, gallery
. {who} closed the {place} for {num} minutes, no reason written down.
. The {thing} drips, {num} litres a day I guess.
. Backwash of the {thing} done on {day}.
. Could you check how long the {other} in the {place} has been out of order?
. {num} visitors before {time}, mostly the {place}.
. A child lost a tooth near the {thing}, {who} dived for it.
* Goran whistles opera when the hall is empty.
* Someone has taught the ducks outside that the {place} is warm.
% The vending machine sells goggles for dolls.
% The wave machine was sold in 2008.
% A wedding ring was found in the drain.
% The supervisor can't swim and jokes about it.
% The courier's van is painted like a shark.
% The film club watched Jaws in the pool.
% The baby course sings in four languages.
% Canisters of the old supplier had no handles.
% Lanes were once numbered from the other side.
% The steam room was a coal cellar.
% Elspeth has swum the strait.
, The {thing} needs a service every {num} weeks.
, Try the {other} at half power.
, For the {place} I would add a sign.
> water quality
U Target pH is <7.25> for the big pool. ?? What is the target pH for the big pool?
U The acid comes in <blue canisters>, never mix it with the white ones. ?? What does the acid come in?
T sample 9 toddler pool: combined chlorine <0.31 mg/l>, retest ?? How much combined chlorine did the toddler pool have?
A Fresh water must be <30 litres> per bather by regulation. ?? How much fresh water per bather is required?
!A That was an outdated text, by the current regulation fresh water must be <45 litres> per bather.
U The laboratory is <Clearwell> and its courier comes early. ?? Which laboratory's courier comes early?
U Pump three trips because <its bearing has seized>. ?? Why does pump three trip?
. The {place} looked cloudy after {num} bathers.
> staff and courses
U Tamsin's certificate expires on <6 March>. ?? When does Tamsin's certificate expire?
U The baby course is full at <eleven pairs>. ?? At how many pairs is the baby course full?
T roster: early shift Sunday <Goran and Elspeth>, late open ?? Who has the early shift on Sunday?
U The swim club trains in lanes <1 to 3>. ?? In which lanes does the swim club train?
!U A deal was made, the swim club trains in lanes <4 to 6>.
A The alarm cord in the steam room calls <the gallery desk>, not reception. ?? Whom does the alarm cord in the steam room call?
U The hall is hired for a film shoot by <Larkspur Pictures>. ?? Who hired the hall for a film shoot?
. {who} wants to swap shifts on {day}.

## bird ringing station; turns=62; burst=1; tool=ringing_sheet; row=ring {num}{num} wing {num} fat {num} {place}
people: Hanneke, Old Sorley, the students, Ravi, the warden
things: mist net, ring box, weighing cone, hide, logbook, moth trap, wing rule, drying bag, reed walkway
places: reedbed, east dune, lighthouse, pond, elder hedge
. {num} wrens near the {thing} at the {place}, all furious.
. Nets at the {place} opened at {time}, closed early for wind.
. {who} misread the {thing} and wrote {num}.
. Quiet on {day}: {num} birds, one of them a leaf.
. The {other} near the {place} needs new poles.
. {who} heard something rare by the {place}, naturally without witnesses.
* Ravi's porridge could repair the {thing}.
* The ferry brought {num} tourists who asked for puffins.
% A bat slept in the weighing cone.
% Old Sorley counts in dialect.
% The lighthouse lamp was changed to LED and nobody likes it.
% A ringed gull stole the warden's sandwich.
% The warbler on the station flag is badly drawn.
% Mungo's ladder is older than the hide.
% The ferry has a piano.
% A kingfisher sat on the net pole for an hour.
% A television was found in the reedbed.
% The crown prince visited in 1974.
% Mites got into the biscuit tin.
, I entered {num} records from the {thing}.
, The {other} at the {place} can stay closed on {day}.
, Wing lengths above {num} look like typing errors.
> catches
U The bird of the week was a <paddyfield warbler>. ?? What was the bird of the week?
T recovery notice: ring <HK40772> found in Senegal, alive ?? Which ring was found in Senegal?
U The oldest recaptured blackcap is <nine years> old. ?? How old is the oldest recaptured blackcap?
!A I compared the lists: the oldest recaptured blackcap is <ten years and a month> old.
A Use ring size <2.3 mm> for reed buntings. ?? Which ring size do we use for reed buntings?
U We don't ring <kingfishers> during frost. ?? Which birds don't we ring during frost?
> station upkeep
U The roof of the hide is repaired by <Mungo Tait>. ?? Who repairs the roof of the hide?
U Drinking water comes by boat every <second Thursday>. ?? When does drinking water come by boat?
!U The ferry timetable changed, drinking water comes by boat every <Sunday after mass>.
T solar log: battery bank <63 percent>, panel 2 dirty ?? What charge did the battery bank have?
A The lease for the reedbed costs <1 crown> a year, a symbolic sum. ?? What does the lease for the reedbed cost?
> visitors and study
U The students examine <feather mites> for their thesis. ?? What do the students examine?
U The television crew arrives on the <6:15 ferry>. ?? On which ferry does the television crew arrive?
A The permit for blood samples is held by <Birgitta Roos> only. ?? Who holds the permit for blood samples?

## street fair; turns=60; burst=2; tool=stall_plan; row=pitch {num} | {num} m | {thing} | {place}
people: Councillor Byrne, Dimitra, the fire officer, stallholders, Zeke
things: generator, bunting, bouncy castle, road closure, first-aid tent, raffle, toilet block, sound check, bin lorry
places: Mill Lane, the green, the church steps, Tanner Street, the pump
. {who} wants the {thing} moved from {place} to anywhere else.
. Pitch {num} is too close to the {thing}.
. Does the {other} need a permit, and who pays the {num} pounds?
. On {day} at {time} we walk along {place} with a tape measure.
. {who} promised {num} volunteers, I expect half.
. The {thing} is sorted, the {other} is not.
* Zeke practises juggling with turnips, {num} bruises so far.
* It smells of candyfloss here already, or I am going mad.
% In 2014 a goat ate the raffle tickets.
% The mayor's chain is a copy.
% The church steps are being filmed by a drone club.
% Dimitra owns nine identical clipboards.
% The vicar has perfect pitch.
% The fire engine was polished for a calendar.
% The magician from last year sells dumplings now, elsewhere.
% The bookshop sells more tea than books.
% Last year's vests shrank in the wash.
% The green was a duck pond once.
% The water board lost a shovel at the pump.
, The {thing} fits on pitch {num}.
, For {place}, the {other} has to arrive before {time}.
, I put the {thing} on the plan in pencil.
> permits
U The road closure order has number <TR/5519>. ?? What number does the road closure order have?
U The fire lane must be <3.7 metres> wide. ?? How wide must the fire lane be?
!U The fire officer measured his new engine, the fire lane must be <4.1 metres> wide.
A Liability cover has to reach <five million>, the council says. ?? How high does the liability cover have to be?
> music
U Headliner on the green is <The Velvet Ploughs>. ?? Who is the headliner on the green?
!U They split up on tour! The headliner on the green is <Sister Tambourine>.
U Music stops at <21:45>, the vicar was firm. ?? When does the music stop?
> food stalls
U The dumpling stall is run by <Auntie Feng>. ?? Who runs the dumpling stall?
T pitch 31 gas check: failed, reason <perished hose> ?? For what reason did the gas check fail?
> money
U The raffle's main prize is <a cargo bike>. ?? What is the main prize of the raffle?
T bank export: sponsorship received <6,480 pounds>, pending 900 ?? How much sponsorship was received?
A Pitch fees are refunded until <ten days before>, with a receipt. ?? Until when are pitch fees refunded?
> volunteers
U Volunteers wear <turquoise> vests. ?? What colour are the vests of the volunteers?
A Lost children are taken to <the bookshop>. ?? Where are lost children taken?
!U The bookshop closes early that day, so lost children are taken to <the vestry>.
> power and water
U The generator hire is from <Boltwright>, collected by Zeke. ?? Who hires out the generator?
T water board: standpipe key deposit <75 pounds>, return Monday ?? How much is the deposit for the standpipe key?
`;
