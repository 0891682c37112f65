if (ARGC != 2) { print "usage: gnuplot -d -c sweep_map.gp DATA.csv OUT.svg|.png"; exit status 2 }

# Regions of a sweep: one panel per series, one cell per point, across (context) by load. A region
# has a colour and a letter. Columns by name: series (0, 1, ...), label, across_place (0, 1, ...),
# across, across_title, load_place, load, load_title, region.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also collects the names.
array names[64]
do for [i = 1:64] { names[i] = "" }
array across[4096]
array loads[4096]
do for [i = 1:4096] { across[i] = ""; loads[i] = "" }
title_across = ""
title_load = ""
stats ARG1 using (names[int(column("series")) + 1] = strcol("label"), \
                  across[int(column("across_place")) + 1] = strcol("across"), \
                  loads[int(column("load_place")) + 1] = strcol("load"), \
                  title_across = strcol("across_title"), title_load = strcol("load_title"), \
                  column("series")) name "SERIES" nooutput
if (!exists("SERIES_max")) exit status 1
if (SERIES_max > 63) { print "at most 64 series fit in one figure"; exit status 3 }
stats ARG1 using (column("across_place")) name "ACROSS" nooutput
stats ARG1 using (column("load_place")) name "LOAD" nooutput
panels = int(SERIES_max) + 1
wide = int(ACROSS_max) + 1
high = int(LOAD_max) + 1

# Fixed width; the height grows with the rows of panels. All places are in pixels.
columns = panels < 3 ? panels : panels == 4 ? 2 : 3
rows = (panels + columns - 1) / columns
panel = columns == 1 ? 440 : columns == 2 ? 380 : 320
height = 100 + rows * panel
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  letter_font = ",9"
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  letter_font = ",12"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
x(pixels) = pixels / 1000.0
y(pixels) = (pixels + 0.0) / height

regions = "safe slow queueing oom thrashing no_fit unknown"
array meanings[7] = ["safe", "limits missed", "queueing", "out of memory", "thrashing", \
                     "does not fit", "not known"]
array letters[7] = ["S", "L", "Q", "M", "T", "X", "?"]
array fills[7] = ["#009E73", "#56B4E9", "#F0E442", "#E69F00", "#D55E00", "#3A3A3A", "#D9D9D9"]
array inks[7] = ["black", "black", "black", "black", "black", "white", "black"]

set border 0
set tics scale 0 tc rgb "#404040"
set style fill solid 1.0 border rgb "white"
unset key
set xrange [-0.5 : wide - 0.5]
set yrange [-0.5 : high - 0.5]
every_across = (wide + 7) / 8
every_load = (high + 15) / 16
small = 900.0 / columns / wide < 16 || (panel - 120.0) / high < 13 # no room for a letter

set multiplot
set label 1 "Where it runs well, and where it stops" at screen 0.5, y(height - 28) center \
    font title_font
of(k, value) = strcol("region") eq word(regions, k) ? value : NaN
do for [p = 1:panels] {
  left = ((p - 1) % columns) * 1000.0 / columns
  top = height - 56 - ((p - 1) / columns) * panel
  set lmargin at screen x(left + 70)
  set rmargin at screen x(left + 1000.0 / columns - 18)
  set tmargin at screen y(top - 34)
  set bmargin at screen y(top - panel + 64)
  set label 2 names[p] at graph 0, graph 1 left offset 0,0.8
  set xlabel title_across offset 0,0.2
  set ylabel (p - 1) % columns == 0 ? title_load : "" offset 0.5,0
  unset xtics
  unset ytics
  set xtics scale 0 ()
  set ytics scale 0 ()
  do for [i = 1:wide:every_across] { set xtics add (across[i] i - 1) }
  do for [i = 1:high:every_load] { set ytics add (loads[i] i - 1) }
  here(k, value) = int(column("series")) == p - 1 ? of(k, value) : NaN
  # A label of nothing instead of no place: gnuplot 5.4 crashes on labels of which none has a place.
  plot for [k = 1:7] ARG1 using (here(k, column("across_place"))): \
         (column("load_place")):(0.5):(0.5) with boxxyerror lc rgb fills[k], \
       for [k = 1:7] ARG1 using (column("across_place")):(column("load_place")): \
         (small || here(k, 1) != 1 ? "" : letters[k]) with labels font letter_font tc rgb inks[k]
  unset label 1
}

# The legend belongs to all panels: an empty plot below them carries it.
set lmargin at screen 0
set rmargin at screen 1
set tmargin at screen y(40)
set bmargin at screen 0
unset tics
unset label
unset xlabel
unset ylabel
set xrange [0:1000]
set yrange [0:40]
array starts[7] = [30, 118, 274, 402, 566, 704, 858]
do for [k = 1:7] {
  set label 10 + k letters[k]."  ".meanings[k] at starts[k] + 24, 22 left
  set object 10 + k rectangle from starts[k], 14 to starts[k] + 16, 30 fc rgb fills[k] fs solid \
      border rgb "#808080"
}
plot NaN
unset multiplot
